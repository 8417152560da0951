"""Pipe from a trainer to its supervisor for disposable messages: lines of JSON, dropped when it is full."""

from __future__ import annotations

import json
import os
from typing import Any

from trainer.journal.protocol import LIVE_FD

_PIPE_BUF = 4096  # writes of up to this many bytes are atomic


def _open(address: str) -> int | None:
    """Return the pipe with this descriptor; None if there is none."""
    try:
        pipe = int(address)
        os.set_blocking(pipe, False)
    except (OSError, ValueError):
        return None
    return pipe


class LivePipe:
    """The writing end of the pipe that LIVE_FD names.

    Attributes:
        descriptor: descriptor of the pipe; None without a reader.
    """

    def __init__(self) -> None:
        address = os.environ.get(LIVE_FD, "")
        self.descriptor = _open(address) if address else None

    def send(self, message: dict[str, Any]) -> None:
        """Write a message as one line; dropped if the pipe is full or the line is too long for an atomic write."""
        if self.descriptor is None:
            return
        line = (json.dumps(message, ensure_ascii=False, separators=(",", ":")) + "\n").encode()
        if len(line) > _PIPE_BUF:
            return
        try:
            os.write(self.descriptor, line)
        except BlockingIOError:
            pass
        except OSError:
            self.descriptor = None
