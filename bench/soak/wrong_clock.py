"""Runs a Python module with a clock that is wrong by some seconds: `python wrong_clock.py FILE MODULE ARGUMENTS`.

The module is imported from the working directory, as by `python -m`: it may belong to another version of this program.

FILE contains the seconds, as `set_error` writes them; a change takes effect immediately, like a jump of the clock.
`time.time` and the current time of `datetime` are shifted in this process and its forks, not in programs it executes.
"""

from __future__ import annotations

import datetime as original
import mmap
import os
import runpy
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

REAL = original.datetime
_SECONDS = struct.Struct("d")


class _AnyDatetime(type):
    """Metaclass: values of the real class are instances of the shifted class, since its methods return them."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, REAL)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, REAL)


def set_error(file: Path, seconds: float) -> None:
    """Set the clocks of the file ahead by so many seconds."""
    with file.open("r+b" if file.exists() else "w+b") as target:  # in place: running processes have it mapped
        target.write(_SECONDS.pack(seconds))


def error_in(file: Path) -> Callable[[], float]:
    """Return a function that returns the current seconds in the file."""
    with file.open("rb") as source:
        mapped = mmap.mmap(source.fileno(), _SECONDS.size, access=mmap.ACCESS_READ)
    return lambda: float(_SECONDS.unpack_from(mapped)[0])


def shift(error: Callable[[], float]) -> None:
    """Shift the clock of this process. Call it before other modules import `datetime` or `time` by name.

    Args:
        error: seconds by which the clock is ahead.
    """
    real_time, real_time_ns = time.time, time.time_ns

    def ahead() -> original.timedelta:
        return original.timedelta(seconds=error())

    class Shifted(REAL, metaclass=_AnyDatetime):
        def __new__(cls, *arguments: Any, **named: Any) -> Any:
            return REAL(*arguments, **named)

        @classmethod
        def now(cls, tz: original.tzinfo | None = None) -> Any:
            return REAL.now(tz) + ahead()

        @classmethod
        def utcnow(cls) -> Any:
            return REAL.now(original.UTC).replace(tzinfo=None) + ahead()

        @classmethod
        def today(cls) -> Any:
            return REAL.now() + ahead()

    for name in ("fromtimestamp", "fromisoformat", "strptime", "combine", "fromordinal", "utcfromtimestamp"):
        setattr(Shifted, name, getattr(REAL, name))
    Shifted.min, Shifted.max = REAL.min, REAL.max
    Shifted.__name__ = Shifted.__qualname__ = "datetime"
    Shifted.__module__ = "datetime"
    original.datetime = Shifted  # type: ignore[misc]
    time.time = lambda: real_time() + error()
    time.time_ns = lambda: real_time_ns() + round(error() * 1e9)


if __name__ == "__main__":
    shift(error_in(Path(sys.argv[1])))
    sys.argv, sys.path[0] = sys.argv[2:], os.getcwd()
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
