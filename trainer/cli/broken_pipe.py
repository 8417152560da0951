"""Handling of a standard output that is a pipe without a reader, as with `| head`: no error, and no more output."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable

from trainer.journal.protocol import COMPLETED


def until_reader_gone(command: Callable[[], int]) -> int:
    """Run a command and return its exit code; COMPLETED if its standard output no longer has a reader.

    Raises:
        BrokenPipeError: another pipe broke.
    """
    try:
        try:
            return command()
        finally:
            sys.stdout.flush()  # here, so that errors can be caught: at exit the interpreter would print a traceback
    except BrokenPipeError:
        if not _reader_gone():
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return COMPLETED


def _reader_gone() -> bool:
    """True if standard output is a pipe without a reader."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))
