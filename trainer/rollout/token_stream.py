"""Streaming of partial responses over a pipe without slowing the rollout; lines may be dropped."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from trainer.journal.live_pipe import LivePipe
from trainer.journal.protocol import ANY_TRAJECTORY, WATCH_FILE
from trainer.policy.chat_format import ChatFormat

_WATCH_INTERVAL = 0.25  # seconds between two reads of the watch file
_WRITE_INTERVAL = 0.08  # seconds between two lines
_MAX_TEXT_LENGTH = 600


class PartialResponses(Protocol):
    """Receiver of the partial responses of watched trajectories.

    Attributes:
        watched: ids of trajectories, or ANY_TRAJECTORY.
    """

    watched: frozenset[str]

    def due(self) -> bool:
        """True if any trajectory is watched and the next line may be sent."""

    def send(self, trajectory: str, turn: int, text: str) -> None:
        """Send the response of a turn so far."""


class TokenStream:
    """Writes `{"trajectory", "turn", "text"}` lines for watched trajectories to a pipe that may be full or closed."""

    def __init__(self, folder: Path) -> None:
        self.watch_file = folder / WATCH_FILE
        self.pipe = LivePipe()
        self.watched: frozenset[str] = frozenset()
        self._checked = self._modified = 0.0
        self._next_write = 0.0

    def due(self) -> bool:
        """True if any trajectory is watched and the next line may be written."""
        return bool(self.refresh()) and time.monotonic() >= self._next_write

    def refresh(self) -> frozenset[str]:
        """Return the watched trajectories, re-read after an interval; none if the pipe has no reader."""
        if self.pipe.descriptor is None:
            return frozenset()
        now = time.monotonic()
        if now - self._checked > _WATCH_INTERVAL:
            self._checked = now
            self._read_watch_file()
        return self.watched

    def _read_watch_file(self) -> None:
        try:
            modified = self.watch_file.stat().st_mtime
            if modified != self._modified:
                self._modified = modified
                names = json.loads(self.watch_file.read_text())["trajectories"]
                self.watched = frozenset(str(name) for name in names)
        except (OSError, ValueError, KeyError, TypeError):
            self.watched = frozenset()

    def send(self, trajectory: str, turn: int, text: str) -> None:
        """Write a line; dropped if the pipe is full."""
        self._next_write = time.monotonic() + _WRITE_INTERVAL
        self.pipe.send({"trajectory": trajectory, "turn": turn, "text": text[-_MAX_TEXT_LENGTH:]})


class TokenStreamListener:
    """A `TokenListener` that streams the watched rows of one session.

    Args:
        stream: receives partial responses.
        chat: decodes them.
        names: trajectory ids by row.
        turn_of: the current turn of a row.
    """

    def __init__(
        self, stream: PartialResponses, chat: ChatFormat, names: Sequence[str], turn_of: Callable[[int], int]
    ) -> None:
        self.stream, self.chat, self.names, self.turn_of = stream, chat, names, turn_of

    def select_rows(self, rows: Sequence[int]) -> Sequence[int]:
        if not self.stream.due():
            return ()
        watched = self.stream.watched
        selected = [row for row in rows if self.names[row] in watched]
        return selected or ([min(rows)] if ANY_TRAJECTORY in watched and rows else ())

    def on_tokens(self, row: int, ids: list[int]) -> None:
        self.stream.send(self.names[row], self.turn_of(row), self.chat.decode(ids))
