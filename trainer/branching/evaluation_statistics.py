"""Estimates over the attempts of an evaluation, as pure functions: shares, differences and means, with intervals.

Values of one attempt depend on each other, and so do several attempts at one puzzle. Every interval here therefore
takes the puzzle as the unit, like the intervals of an evaluation: Wilson's interval for the effective number of values.
Unlike a bootstrap or a t interval, it keeps a width when all values are equal, as with few attempts they often are:
five of five attempts that were won are no proof of 100 %.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TypeVar

from trainer.evaluation.suite_runner import clustered_interval, success_interval
from trainer.journal.branches import Interval, Share
from trainer.loops.recorded_attempts import RecordedAttempt
from trainer.metrics.success_difference import Rate, correlation, difference
from trainer.seeds import Purpose, derive, number_of

T = TypeVar("T")


@dataclass(frozen=True)
class Continued:
    """Outcomes of the continuations of one attempt at a puzzle: after the corrected thought, and after its own."""

    puzzle: int
    corrected: Sequence[bool]
    own: Sequence[bool]


@dataclass(frozen=True)
class Measured:
    """Values from 0 to 1 of the turns of one attempt at a puzzle."""

    puzzle: int
    values: Sequence[float]


def draw(items: Sequence[T], most: int, attempt_of: Callable[[T], RecordedAttempt]) -> list[T]:
    """Return at most so many of the items in their order: the same ones for the same run, and more for a larger limit.

    Args:
        attempt_of: returns the attempt that an item is about.
    """

    def place(item: T) -> int:
        attempt = attempt_of(item)
        return derive(attempt.config.seed, Purpose.BRANCH, number_of(attempt.trajectory))

    chosen = sorted(range(len(items)), key=lambda number: (place(items[number]), number))[:most]
    return [items[number] for number in sorted(chosen)]


def corrected_shares(continued: Iterable[Continued]) -> tuple[Share, Share, Interval | None]:
    """Return the shares solved with and without the correction, and their difference; None without an attempt.

    The interval of the difference combines the intervals of both shares with their correlation over puzzles, as
    Newcombe (1998) does for paired shares, and Zou and Donner (2008) for intervals of any kind. An attempt whose
    environment failed in all continuations of a kind counts in neither share, since nothing is left to compare.
    """
    pairs: dict[int, tuple[list[bool], list[bool]]] = {}
    for attempt in continued:
        if attempt.corrected and attempt.own:
            with_it, without = pairs.setdefault(attempt.puzzle, ([], []))
            with_it += attempt.corrected
            without += attempt.own
    solved, solved_without = (_share([pair[kind] for pair in pairs.values()]) for kind in range(2))
    if not pairs:
        return solved, solved_without, None
    means, means_without = ([fmean(pair[kind]) for pair in pairs.values()] for kind in range(2))
    apart = difference(_rate(solved_without), _rate(solved), correlation(means_without, means))
    return solved, solved_without, Interval(value=apart.value, low=apart.low, high=apart.high)


def mean_over_attempts(attempts: Iterable[Measured]) -> Interval | None:
    """Return the mean over attempts of the mean over their turns; None if no turn has a value."""
    known = [attempt for attempt in attempts if attempt.values]
    if not known:
        return None
    puzzles: dict[int, list[float]] = {}
    for attempt in known:
        puzzles.setdefault(attempt.puzzle, []).append(_bounded(fmean(attempt.values)))
    mean = _bounded(fmean(value for values in puzzles.values() for value in values))
    turns = sum(len(attempt.values) for attempt in known)
    low, high = clustered_interval(mean, [fmean(values) for values in puzzles.values()], turns)
    return Interval(value=mean, low=low, high=high)


def _share(by_puzzle: Sequence[Sequence[bool]]) -> Share:
    solved, samples = sum(map(sum, by_puzzle)), sum(map(len, by_puzzle))
    low, high = success_interval(by_puzzle)
    return Share(solved=solved, samples=samples, share=solved / samples if samples else 0.0, low=low, high=high)


def _rate(share: Share) -> Rate:
    return Rate(share.share, share.low, share.high)


def _bounded(value: float) -> float:
    """Return a distance without its rounding error beyond 0 or 1."""
    return min(1.0, max(0.0, value))
