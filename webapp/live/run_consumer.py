"""The websocket of a run, `/ws/runs/<slug>/?after=<seq>`: who may listen and what goes over the wire, at their pace.

Where frames come from is in reader.py. Frames of the server, all JSON objects with a `type`:

    hello   seq attempt state failure problem live     where the run stands; first, and again whenever that changes.
                                                       live: "push", or "poll" while Redis is gone
    events  first last events                          contiguous, in order, exactly once (group_started with slugs)
    tokens  trajectory turn text                       a thought so far; has no seq, may be dropped
    resync  seq                                        reload the snapshot; what follows on this socket begins after seq
    ping, pong                                         heartbeat
    error   message                                    about a frame of the client that makes no sense

and of the client: {"type": "watch", "trajectory": id in the journal, "*" for any, null for none}, ping, pong. Closed
with 4403: log in first (a run that everybody with its address may see needs no account); 4404: no such run, or not
yours; 1013: the database is away, come back.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from typing import Any
from urllib.parse import parse_qs

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer

from trainer.journal.protocol import ANY_TRAJECTORY
from webapp.core.broadcast import REDIS_GONE
from webapp.live.frame_reader import DATABASE_GONE, Frame, FrameReader, frames_after, hub, run_status
from webapp.runs import token_subscriptions
from webapp.runs.models import Run

logger = logging.getLogger(__name__)

LOG_IN, NOT_FOUND, TRY_LATER = 4403, 4404, 1013
PING_EVERY = 20.0
SILENCE = 65.0
MAX_MESSAGE_LENGTH = 2000
TOO_FAR_BEHIND = 5000
TOKENS_PENDING = 8


@database_sync_to_async
def visible_run(user: Any, slug: str) -> int | None:
    """The run's primary key if the user may see it."""
    return Run.objects.visible_to(user).filter(slug=slug).values_list("pk", flat=True).first()


class RunConsumer(AsyncWebsocketConsumer):
    """One browser watching one run."""

    channel_layer_alias = "unused"  # the process's reader listens for all of its sockets, so that Redis may be away

    async def connect(self) -> None:
        self.reader: FrameReader | None = None
        self.tasks: list[asyncio.Task[None]] = []
        self.woken = asyncio.Event()
        self.thoughts: dict[str, dict[str, Any]] = {}
        self.watched: str | None = None
        self.heard = time.monotonic()
        self.said: dict[str, Any] | None = None
        self.slug: str = self.scope["url_route"]["kwargs"]["slug"]
        await self.accept()  # a refusal before it would reach browsers without its code
        try:
            run_id = await visible_run(self.scope["user"], self.slug)
            now = await run_status(run_id) if run_id is not None else None
        except DATABASE_GONE:
            await self.close(TRY_LATER)
            return
        if run_id is None or now is None:
            await self.close(NOT_FOUND if self.scope["user"].is_authenticated else LOG_IN)
            return
        self.cursor = _cursor(self.scope["query_string"], now.seq)
        self.reader = hub().join(run_id, self.slug, now, self)
        if self.cursor > self.reader.seq:
            self.reader.wake()  # it has not looked since
        self.tasks = [asyncio.create_task(self._guard(self._pump())), asyncio.create_task(self._guard(self._beat()))]

    async def disconnect(self, code: int) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        if self.reader is not None:
            await hub().leave(self.reader, self)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        self.heard = time.monotonic()
        problem = await self._obey(text_data)
        if problem:
            await self._say({"type": "error", "message": problem})

    async def _obey(self, text: str | None) -> str:
        """Do what the client asks. Returns what is wrong with it, in words."""
        if text is None or len(text) > MAX_MESSAGE_LENGTH:
            return f"A frame must be JSON text of at most {MAX_MESSAGE_LENGTH} characters."
        try:
            frame = json.loads(text)
        except (ValueError, RecursionError):
            return "This frame is not JSON."
        if not isinstance(frame, dict):
            return "A frame must be a JSON object with a type."
        match frame:
            case {"type": "ping"}:
                await self._say({"type": "pong"})
            case {"type": "pong"}:
                pass
            case {"type": "watch", "trajectory": None}:
                self.watched = None
                self.thoughts.clear()
            case {"type": "watch", "trajectory": str(name)} if 0 < len(name) <= 100:
                self.watched = name
                self.thoughts.clear()
                await self._keep_watch()
            case {"type": "watch"}:
                return 'watch takes a trajectory: its id in the journal, "*" for any, null for none.'
            case _:
                return "Unknown type of frame; known are watch, ping and pong."
        return ""

    def wake(self) -> None:
        self.woken.set()

    def offer(self, tokens: dict[str, Any]) -> None:
        name = tokens["trajectory"]
        if self.watched not in (name, ANY_TRAJECTORY):
            return
        if name in self.thoughts or len(self.thoughts) < TOKENS_PENDING:  # the newest text replaces an unsent one
            self.thoughts[name] = {
                "type": "tokens",
                "trajectory": name,
                "turn": tokens["turn"],
                "text": tokens["text"],
            }
            self.woken.set()

    async def _guard(self, work: Any) -> None:
        """Run a task of this socket; if it breaks, the client comes back and goes on from its cursor."""
        try:
            await work
        except DATABASE_GONE:
            await self.close(TRY_LATER)
        except Exception:
            logger.exception("The live connection to run %s broke", self.slug)
            await self.close(1011)

    async def _pump(self) -> None:
        """Everything the client has not got yet, again and again. Waits for nobody but this client."""
        reader = self.reader
        assert reader is not None
        if self.cursor > reader.seq:
            now = await run_status(reader.run_id)
            if now is not None and self.cursor > now.seq:
                await self._resync(now.seq)
        while True:
            self.woken.clear()
            if reader.gone:
                await self.close(NOT_FOUND)
                return
            await self._hello(reader)
            now = reader.now
            if self.cursor < now.resync_seq or reader.seq - self.cursor > TOO_FAR_BEHIND:
                await self._resync(max(reader.seq, now.seq))
            frames = reader.fresh(self.cursor)
            if frames is None:
                frames = await frames_after(reader.run_id, self.cursor)
                if not frames or frames[0].first > self.cursor + 1:
                    await self._resync(reader.seq)
                    frames = []
            for frame in frames:
                if frame.last > self.cursor:
                    await self.send(_after(frame, self.cursor))
                    self.cursor = frame.last
            while self.thoughts:
                await self._say(self.thoughts.pop(next(iter(self.thoughts))))
            if self.cursor >= reader.seq:
                await self.woken.wait()

    async def _hello(self, reader: FrameReader) -> None:
        now = reader.now
        standing_now = {
            "attempt": now.attempt,
            "state": now.state,
            "failure": now.failure,
            "problem": now.journal_error,
            "live": "push" if reader.hub.redis_answers else "poll",
        }
        if standing_now != self.said:
            self.said = standing_now
            await self._say({"type": "hello", "seq": now.seq, **standing_now})

    async def _resync(self, seq: int) -> None:
        self.cursor = seq
        await self._say({"type": "resync", "seq": seq})

    async def _beat(self) -> None:
        """Heartbeat, the watch's renewal, and whether the user may still listen."""
        next_ping = time.monotonic() + PING_EVERY
        while True:
            await asyncio.sleep(token_subscriptions.REFRESH)
            if self.watched:
                await self._keep_watch()
            if time.monotonic() < next_ping:
                continue
            next_ping = time.monotonic() + PING_EVERY
            if time.monotonic() - self.heard > SILENCE:
                await self.close()
                return
            await self._say({"type": "ping"})
            if await visible_run(self.scope["user"], self.slug) is None:
                await self.close(NOT_FOUND)
                return

    async def _keep_watch(self) -> None:
        if self.watched is None:
            return
        try:
            await asyncio.shield(token_subscriptions.keep(hub().redis, self.slug, self.watched))
        except REDIS_GONE:
            pass  # thoughts stop flowing until it is back; hello says so

    async def _say(self, frame: dict[str, Any]) -> None:
        await self.send(json.dumps(frame))


def _cursor(query: bytes, newest: int) -> int:
    """`after` of the address; without one, from now on."""
    given = parse_qs(query.decode("ascii", "replace")).get("after", [""])[0]
    return int(given) if given.isascii() and given.isdigit() and len(given) < 19 else newest


def _after(frame: Frame, cursor: int) -> str:
    """The frame without events the client has already; nearly always the stored bytes themselves."""
    if frame.first > cursor:
        return frame.text
    data = json.loads(frame.text)
    data["events"] = data["events"][cursor + 1 - frame.first :]
    data["first"] = cursor + 1
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))
