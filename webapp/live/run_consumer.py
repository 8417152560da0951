"""Websocket of a run, `/ws/runs/<slug>/?after=<seq>&rebuilds=<n>`: sends each client the run's frames at its own pace.

`after` and `rebuilds` come from the snapshot that the client shows. Numbers of events are comparable only between
rebuilds of a run from its journal, so a client with another `rebuilds` is sent a resync first.

Frames of the server, all JSON objects with a `type`:

    hello   seq attempt state failure problem live     status of the run; first, and again whenever it changes.
                                                       live: "push", or "poll" while Redis is away
    events  first last events                          contiguous, in order, exactly once (group_started with slugs)
    tokens  trajectory turn text                       partial response; has no seq, may be dropped
    progress phase                                     the phase of an update between events of the journal, with its
                                                       time; has no valid seq, may be dropped
    resync  seq                                        reload the snapshot; what follows on this socket begins after seq
    ping, pong                                         heartbeat
    error   message                                    about an invalid frame of the client

and of the client: {"type": "watch", "trajectory": id in the journal, "*" for any, null for none}, ping, pong. Close
codes: 4403, log in first (a run with visibility "link" needs no account); 4404, no such run, or not visible to the
user; 1013, database unavailable, retry.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from trainer.journal.protocol import ANY_TRAJECTORY
from webapp.core.broadcast import REDIS_UNAVAILABLE
from webapp.core.database import query
from webapp.live.consumer_base import LOG_IN, NOT_FOUND, LiveConsumer
from webapp.live.frame_reader import Frame, FrameReader, SharedEvents, frames_after, hub, run_status
from webapp.live.shared_frames import SharedFrame, find_write
from webapp.runs import token_subscriptions
from webapp.runs.models import Run
from webapp.runs.public_texts import failure_text, problem_text, public_frame
from webapp.teams.access import role_in

MAX_EVENTS_BEHIND = 5000
MAX_PENDING_TOKENS = 8
MAX_TRAJECTORY_ID = 100


def visible_run(user: Any, slug: str) -> tuple[int, bool] | None:
    """Return the run's primary key if the user may see it, and whether the user is in its team."""
    row = Run.objects.visible_to(user).filter(slug=slug).values_list("pk", "team_id").first()
    return None if row is None else (row[0], role_in(user, row[1]) is not None)


class RunConsumer(LiveConsumer):
    """One browser watching one run."""

    async def open(self) -> int | None:
        self.reader: FrameReader | None = None
        self.pending_tokens: dict[str, SharedFrame] = {}
        self.write = find_write(self.scope)
        self.resting = False
        """True if everything known was sent, so that new frames may be written past `follow`."""
        self.pending_progress: SharedFrame | None = None
        self.watched_trajectory: str | None = None
        self.last_hello: dict[str, Any] | None = None
        self.inside = False
        visible = await query(visible_run, self.scope["user"], self.slug)
        run_id, self.inside = visible or (None, False)
        status = await query(run_status, run_id) if run_id is not None else None
        if run_id is None or status is None:
            return NOT_FOUND if self.scope["user"].is_authenticated else LOG_IN
        self.seq = self.cursor("after", default=status.seq)
        self.rebuilds = self.cursor("rebuilds", default=status.rebuilds)
        self.reader = hub().join(run_id, self.slug, status, self)
        if self.seq > self.reader.seq:
            self.reader.wake()  # it has not polled since
        return None

    async def visibility(self) -> tuple[int, bool] | None:
        return await query(visible_run, self.scope["user"], self.slug)

    def on_visibility(self, visibility: tuple[int, bool]) -> None:
        self.inside = visibility[1]

    async def release(self) -> None:
        if self.reader is not None:
            await hub().leave(self.reader, self)

    async def on_frame(self, frame: dict[str, Any]) -> str:
        match frame:
            case {"type": "pong"}:
                return ""
            case {"type": "watch", "trajectory": None}:
                self.watched_trajectory = None
                self.pending_tokens.clear()
                return ""
            case {"type": "watch", "trajectory": str(name)} if 0 < len(name) <= MAX_TRAJECTORY_ID:
                self.watched_trajectory = name
                self.pending_tokens.clear()
                await self.renew()
                return ""
            case {"type": "watch"}:
                return 'watch takes a trajectory: its id in the journal, "*" for any, null for none.'
        return "Unknown frame type; use watch, ping or pong."

    async def on_invalid_frame(self, message: str) -> None:
        await self.send_frame({"type": "error", "message": message})

    def wake(self) -> None:
        self.resting = False
        super().wake()

    def on_events(self, events: SharedEvents) -> None:
        if self.seq + 1 == events.first and self._write_now(events.inside if self.inside else events.outside):
            self.seq = events.last
        else:
            self.wake()

    def on_tokens(self, trajectory: str, frame: SharedFrame) -> None:
        if self.watched_trajectory not in (trajectory, ANY_TRAJECTORY) or self._write_now(frame):
            return
        if trajectory in self.pending_tokens or len(self.pending_tokens) < MAX_PENDING_TOKENS:
            self.pending_tokens[trajectory] = frame  # the newest text replaces an unsent one
            self.wake()

    def on_progress(self, frame: SharedFrame) -> None:
        if not self._write_now(frame):
            self.pending_progress = frame  # the newest replaces an unsent one
            self.wake()

    def _write_now(self, frame: SharedFrame) -> bool:
        return self.resting and self.write(frame)

    async def follow(self) -> None:
        reader = self.reader
        assert reader is not None
        if self.seq > reader.seq:
            status = await query(run_status, reader.run_id)
            if status is not None and self.seq > status.seq:
                await self._resync(status.seq)
        while True:
            self.woken.clear()
            if reader.deleted:
                await self.close(NOT_FOUND)
                return
            await self._send_hello(reader)
            status = reader.status
            if self.rebuilds != status.rebuilds:
                self.rebuilds = status.rebuilds
                await self._resync(status.seq)
            if self.seq < status.resync_seq or reader.seq - self.seq > MAX_EVENTS_BEHIND:
                await self._resync(max(reader.seq, status.seq))
            await self._send_frames(reader)
            while self.pending_tokens:
                await self.send(self.pending_tokens.pop(next(iter(self.pending_tokens))).text)
            if self.pending_progress is not None:
                frame, self.pending_progress = self.pending_progress, None
                await self.send(frame.text)
            if self.seq >= reader.seq:
                self.resting = not self.woken.is_set()
                await self.wait_until_woken()
                self.resting = False

    async def _send_frames(self, reader: FrameReader) -> None:
        """Send the frames after the client's cursor, from the reader's memory or else a page from the database."""
        frames = reader.buffered_after(self.seq)
        if frames is None:
            frames = await query(frames_after, reader.run_id, self.seq)
            if not frames or frames[0].first > self.seq + 1:
                await self._resync(reader.seq)
                return
        for frame in frames:
            if frame.last > self.seq:
                text = _trim(frame, self.seq)
                await self.send(text if self.inside else public_frame(text))
                self.seq = frame.last

    async def _send_hello(self, reader: FrameReader) -> None:
        status = reader.status
        hello = {
            "attempt": status.attempt,
            "state": status.state,
            "failure": failure_text(status.failure, inside=self.inside),
            "problem": problem_text(status.journal_error, inside=self.inside),
            "live": "push" if reader.hub.redis_answers else "poll",
        }
        if hello != self.last_hello:
            self.last_hello = hello
            await self.send_frame({"type": "hello", "seq": status.seq, **hello})

    async def _resync(self, seq: int) -> None:
        self.seq = seq
        await self.send_frame({"type": "resync", "seq": seq})

    def renew_interval(self) -> float:
        return token_subscriptions.RENEW_INTERVAL

    async def renew(self) -> None:
        """Renew the subscription to tokens, which expires in Redis."""
        if self.watched_trajectory is None:
            return
        try:
            await asyncio.shield(token_subscriptions.subscribe(hub().redis, self.slug, self.watched_trajectory))
        except REDIS_UNAVAILABLE:
            pass  # tokens stop until Redis is back; hello reports it


def _trim(frame: Frame, seq: int) -> str:
    """Return the frame without events up to `seq`; nearly always the stored bytes."""
    if frame.first > seq:
        return frame.text
    data = json.loads(frame.text)
    data["events"] = data["events"][seq + 1 - frame.first :]
    data["first"] = seq + 1
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))
