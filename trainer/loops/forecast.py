"""Remaining time of a run, with a range, from the measured seconds of its phases. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trainer.config.run import RunConfig

WINDOW = 20
"""Newest measurements of each phase that a forecast reads."""
LOW, MIDDLE, HIGH = 0.1, 0.5, 0.9
"""Quantiles of a phase's seconds: pace of a fast, a typical and a slow iteration."""
SPREAD_OF_ONE = 0.3
"""Relative half-width of the range after a single measurement; it falls with the square root of their number."""
ORDER = ("rollout", "update", "evaluate", "checkpoint")
"""Phases of an iteration, in order. The evaluation of an iteration follows its update."""

Seconds = Mapping[str, Sequence[float]]
"""Phase → seconds of each time it was done, oldest first; `other` is the rest of an iteration."""


@dataclass(frozen=True)
class Forecast:
    """Remaining seconds at a typical pace, and at that of fast and slow iterations: 0 ≤ low ≤ seconds ≤ high."""

    seconds: float
    low: float
    high: float


@dataclass(frozen=True)
class Position:
    """Where a run stands.

    Attributes:
        phase: current one.
        iteration: of the phase, from 1; of an evaluation or a checkpoint: the finished iteration, 0 before the first.
        share: completed share of the phase, 0 to 1.
    """

    phase: str
    iteration: int
    share: float = 0.0


def phase_seconds(metrics: Mapping[str, float]) -> dict[str, float]:
    """Phase → seconds, from the time/* of an iteration or an evaluation; `other` without checkpoints."""
    prefix = "time/"
    seconds = {name.removeprefix(prefix): value for name, value in metrics.items() if name.startswith(prefix)}
    if "other" in seconds:
        seconds["other"] = max(0.0, seconds["other"] - seconds.get("checkpoint", 0.0))
    return seconds


def quantile(values: Sequence[float], at: float) -> float:
    """Quantile of values, not empty, interpolated linearly between neighbours; `at` from 0 to 1."""
    ordered = sorted(values)
    place = at * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def remaining_phases(config: RunConfig, iterations: int, position: Position) -> dict[str, float]:
    """How often each phase is still to be done; the rest of the current one counts as a fraction.

    Args:
        config: has the intervals of evaluations and checkpoints.
        iterations: planned.
    """
    current, at = position.phase, position.iteration
    step = ORDER.index(current) if current in ORDER else len(ORDER)
    rest = 1.0 - position.share
    evaluation, checkpoint = config.evaluation, config.checkpoint
    every = (evaluation.every if evaluation.every else iterations) if evaluation.prompts else 0
    due = {
        "rollout": iterations - at if config.kind == "train" else 0,
        "update": iterations - at,
        "evaluate": _due_after(at, iterations, every),
        "checkpoint": _due_after(at, iterations, checkpoint.every),
    }
    now = {
        "rollout": config.kind == "train",
        "update": True,
        "evaluate": _is_due(at, iterations, every),
        "checkpoint": _is_due(at, iterations, checkpoint.every),
    }
    counts = {}
    for place, phase in enumerate(ORDER):
        here = rest if phase == current else float(now[phase]) if place > step else 0.0
        counts[phase] = max(0, due[phase]) + here
    return counts | {"other": counts["update"]}


def _is_due(iteration: int, iterations: int, every: int) -> bool:
    return every > 0 and (iteration == iterations or iteration % every == 0)


def _due_after(iteration: int, iterations: int, every: int) -> int:
    """Number of iterations after this one that are a multiple of `every` (0: none), or the last."""
    if every <= 0 or iteration >= iterations:
        return 0
    return iterations // every - iteration // every + (iterations % every > 0)


def forecast(measured: Seconds, remaining: Mapping[str, float]) -> Forecast | None:
    """Remaining time of the phases that are still to be done.

    The bounds assume that all of them are as fast as the fast iterations were, or as slow as the slow ones. Phases that
    were never measured count as 0, but without a measured update, or a rollout where one is to come, there is none.
    """
    known = {phase: list(seconds)[-WINDOW:] for phase, seconds in measured.items() if len(seconds)}
    if any(remaining.get(phase, 0) > 0 and phase not in known for phase in ("rollout", "update")):
        return None
    low, middle, high = (
        sum(count * quantile(known[phase], at) for phase, count in remaining.items() if phase in known)
        for at in (LOW, MIDDLE, HIGH)
    )
    width = SPREAD_OF_ONE / max(1, len(known.get("update", ()))) ** 0.5
    return Forecast(middle, min(low, middle * (1 - width)), max(high, middle * (1 + width)))


def iteration_shares(measured: Seconds, config: RunConfig, iterations: int, iteration: int) -> dict[str, float]:
    """Phase → its share of an iteration's time, in order; they add up to 1. Empty before the first one is done.

    Args:
        iteration: from 1; 0 is the evaluation before the first iteration, for which there are none.
    """
    known = {phase: list(seconds)[-WINDOW:] for phase, seconds in measured.items() if len(seconds)}
    if iteration < 1 or "update" not in known:
        return {}
    due = remaining_phases(config, iterations, Position("rollout", iteration))
    later = remaining_phases(config, iterations, Position("checkpoint", iteration, 1.0))
    expected = {
        phase: quantile(known[phase], MIDDLE) for phase in ORDER if phase in known and due[phase] > later[phase]
    }
    total = sum(expected.values())
    return {phase: round(seconds / total, 3) for phase, seconds in expected.items()} if total > 0 else {}
