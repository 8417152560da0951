"""Runs a Python module with a clock that is wrong by some seconds: `… wrong_clock SECONDS MODULE ARGUMENTS`.

`time.time` and the current time of `datetime` are shifted in this process and its forks, not in programs it executes.
"""

from __future__ import annotations

import datetime as original
import runpy
import sys
import time
from typing import Any

REAL = original.datetime


class _AnyDatetime(type):
    """Values of the real class are instances of the shifted one: its methods return them."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, REAL)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, REAL)


def shift(seconds: float) -> None:
    """Set the clock of this process wrong. Call it before other modules import `datetime` or `time` by name."""
    real_time, real_time_ns = time.time, time.time_ns
    ahead = original.timedelta(seconds=seconds)

    class Shifted(REAL, metaclass=_AnyDatetime):
        def __new__(cls, *arguments: Any, **named: Any) -> Any:
            return REAL(*arguments, **named)

        @classmethod
        def now(cls, tz: original.tzinfo | None = None) -> Any:
            return REAL.now(tz) + ahead

        @classmethod
        def utcnow(cls) -> Any:
            return REAL.now(original.UTC).replace(tzinfo=None) + ahead

        @classmethod
        def today(cls) -> Any:
            return REAL.now() + ahead

    for name in ("fromtimestamp", "fromisoformat", "strptime", "combine", "fromordinal", "utcfromtimestamp"):
        setattr(Shifted, name, getattr(REAL, name))
    Shifted.min, Shifted.max = REAL.min, REAL.max
    Shifted.__name__ = Shifted.__qualname__ = "datetime"
    Shifted.__module__ = "datetime"
    original.datetime = Shifted  # type: ignore[misc]
    time.time = lambda: real_time() + seconds
    time.time_ns = lambda: real_time_ns() + round(seconds * 1e9)


if __name__ == "__main__":
    shift(float(sys.argv[1]))
    sys.argv = sys.argv[2:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
