"""Thoughts while they are written: droppable lines on a pipe, for whoever watches. Nothing here slows the rollout."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from trainer.journal.protocol import ANY_TRAJECTORY, LIVE_FD, WATCH_FILE
from trainer.policy.chat_format import ChatFormat

_LOOK_EVERY = 0.25
_WRITE_EVERY = 0.08
_LONGEST = 600


def _opened(given: str) -> int | None:
    """The pipe of that number, or of that path where several processes share it; None where nobody reads it."""
    try:
        pipe = int(given) if given.isdigit() else os.open(given, os.O_WRONLY | os.O_NONBLOCK)
        os.set_blocking(pipe, False)
    except OSError:
        return None
    return pipe


class TokenStream:
    """Writes `{"trajectory", "turn", "text"}` lines for watched trajectories to a pipe that may be full or closed."""

    def __init__(self, folder: Path) -> None:
        self.watch_file = folder / WATCH_FILE
        given = os.environ.get(LIVE_FD, "")
        self.pipe = _opened(given) if given else None
        self.watched: frozenset[str] = frozenset()
        self._looked = self._modified = 0.0
        self._next_write = 0.0

    def due(self) -> bool:
        """Whether somebody watches and the last line is long enough ago."""
        if self.pipe is None:
            return False
        now = time.monotonic()
        if now - self._looked > _LOOK_EVERY:
            self._looked = now
            self._look()
        return bool(self.watched) and now >= self._next_write

    def _look(self) -> None:
        try:
            modified = self.watch_file.stat().st_mtime
            if modified != self._modified:
                self._modified = modified
                listed = json.loads(self.watch_file.read_text())["trajectories"]
                self.watched = frozenset(str(name) for name in listed)
        except (OSError, ValueError, KeyError, TypeError):
            self.watched = frozenset()

    def send(self, trajectory: str, turn: int, text: str) -> None:
        """One line, dropped if the pipe is full."""
        if self.pipe is None:
            return
        self._next_write = time.monotonic() + _WRITE_EVERY
        told = {"trajectory": trajectory, "turn": turn, "text": text[-_LONGEST:]}
        line = json.dumps(told, ensure_ascii=False) + "\n"
        try:
            os.write(self.pipe, line.encode())  # at most PIPE_BUF bytes: written whole or not at all
        except BlockingIOError:
            pass
        except OSError:
            self.pipe = None


class TokenStreamListener:
    """A sampler's listener for the rows of one session, each a trajectory."""

    def __init__(
        self, channel: TokenStream, chat: ChatFormat, names: Sequence[str], turn_of: Callable[[int], int]
    ) -> None:
        self.channel, self.chat, self.names, self.turn_of = channel, chat, names, turn_of

    def select_rows(self, rows: Sequence[int]) -> Sequence[int]:
        if not self.channel.due():
            return ()
        watched = self.channel.watched
        found = [row for row in rows if self.names[row] in watched]
        return found or ([min(rows)] if ANY_TRAJECTORY in watched and rows else ())

    def on_tokens(self, row: int, ids: list[int]) -> None:
        self.channel.send(self.names[row], self.turn_of(row), self.chat.decode(ids))
