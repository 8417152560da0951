"""Rewinds that are planned in the settings of a run: those that people asked for, or that repeat another run's.

A rewind is written as `50=40`: once 50 iterations are finished, the run returns to the checkpoint of iteration 40 and
plays on with other puzzles. `50/1=40` means the time after the run's first rewind, when it gets there again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

_KEY = re.compile(r"(0|[1-9]\d{0,6})(?:/([1-9]\d{0,3}))?")


class PlannedRewind(NamedTuple):
    """A rewind: rewinds of the run before it, iterations finished before it, and finished in its checkpoint."""

    rewinds: int
    from_iteration: int
    to_iteration: int


def key_of(from_iteration: int, rewinds: int = 0) -> str:
    """Return the key of a rewind after so many iterations, and so many earlier rewinds."""
    return f"{from_iteration}" + (f"/{rewinds}" if rewinds else "")


def parse(plan: Mapping[str, str]) -> list[PlannedRewind]:
    """Return the planned rewinds in the order of time. Raises ValueError."""
    return sorted(_parsed(key, text) for key, text in plan.items())


def _parsed(key: str, text: str) -> PlannedRewind:
    match = _KEY.fullmatch(key.strip())
    if match is None or not text.strip().isdecimal():
        raise ValueError(
            f"{key}={text} is no rewind: 50=40 goes back from iteration 50 to the checkpoint of iteration 40, 50/1=40 "
            "when iteration 50 is reached again after the first rewind"
        )
    planned = PlannedRewind(int(match[2] or 0), int(match[1]), int(text))
    if planned.to_iteration > planned.from_iteration:
        raise ValueError(f"{key}={text} leads forward: a rewind goes back to an earlier iteration")
    return planned


def target_at(plan: Mapping[str, str], iteration: int, rewinds: int) -> int | None:
    """Return the checkpoint to which the run returns now, after so many iterations and rewinds; None if it goes on."""
    due = (planned for planned in parse(plan) if planned[:2] == (rewinds, iteration))
    return next((planned.to_iteration for planned in due), None)


def targets(plan: Mapping[str, str], rewinds: int) -> set[int]:
    """Return the checkpoints that planned rewinds may need after so many rewinds."""
    return {planned.to_iteration for planned in parse(plan) if planned.rewinds >= rewinds}


def numbers(plan: Mapping[str, str]) -> list[int]:
    """Return the number of each planned rewind among all rewinds of the run, from 1."""
    return [planned.rewinds + 1 for planned in parse(plan)]
