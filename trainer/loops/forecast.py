"""Remaining time of a run, with a range, from the measured seconds of its phases. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trainer.config.run import LEARNING_BY_SAMPLING, RunConfig

WINDOW = 20
"""Number of newest measurements of each phase in a forecast."""
LOW, MIDDLE, HIGH = 0.1, 0.5, 0.9
"""Quantiles of a phase's seconds: pace of a fast, a typical and a slow iteration."""
SPREAD_OF_ONE = 0.3
"""Relative half-width of the range after a single measurement; it shrinks with the square root of their number."""
ASSUMED_RANGE = 2.0
"""Factor by which seconds may be wrong if they were only derived from other phases."""
ORDER = ("warmup", "rollout", "update", "evaluate", "checkpoint")
"""Phases of an iteration, in order. The evaluation of an iteration follows its update.

An iteration up to 0 is a step of the warm-up on demonstrations instead of a rollout and an update.
"""

Seconds = Mapping[str, Sequence[float]]
"""Phase → seconds of each occurrence, oldest first; `other` is the rest of an iteration."""


@dataclass(frozen=True)
class Forecast:
    """Remaining seconds at the pace of typical, fast and slow iterations: 0 ≤ low ≤ seconds ≤ high."""

    seconds: float
    low: float
    high: float


@dataclass(frozen=True)
class RunPosition:
    """Position within a run.

    Attributes:
        phase: current phase.
        iteration: iteration of the phase, from 1, or up to 0 within a warm-up; for an evaluation or a checkpoint, the
            finished iteration.
        share: completed share of the phase, 0 to 1.
    """

    phase: str
    iteration: int
    share: float = 0.0


def phase_seconds(metrics: Mapping[str, float]) -> dict[str, float]:
    """Return the seconds of each phase from time/* of an iteration or an evaluation; `other` excludes checkpoints."""
    prefix = "time/"
    seconds = {name.removeprefix(prefix): value for name, value in metrics.items() if name.startswith(prefix)}
    if "other" in seconds:
        seconds["other"] = max(0.0, seconds["other"] - seconds.get("checkpoint", 0.0))
    return seconds


def remaining_phases(config: RunConfig, iterations: int, position: RunPosition) -> dict[str, float]:
    """Return how often each phase is still due; the rest of the current phase counts as a fraction.

    Args:
        config: contains the intervals of evaluations and checkpoints.
        iterations: number of planned iterations.
    """
    current, at = position.phase, position.iteration
    step = ORDER.index(current) if current in ORDER else len(ORDER)
    rest = 1.0 - position.share
    evaluation, checkpoint = config.evaluation, config.checkpoint
    iterations_left = iterations - max(at, 0)
    due = {
        "warmup": max(0, -at),
        "rollout": iterations_left if config.kind == "train" else 0,
        "update": iterations_left,
        "evaluate": _due_after(at, iterations, evaluation.every) if evaluation.prompts else 0,
        "checkpoint": _due_after(at, iterations, checkpoint.every),
    }
    now = {
        "update": at > 0,
        "evaluate": evaluation.prompts > 0 and _is_due(at, iterations, evaluation.every),
        "checkpoint": _is_due(at, iterations, checkpoint.every),
    }
    counts = {}
    for index, phase in enumerate(ORDER):
        here = rest if phase == current else float(now.get(phase, False)) if index > step else 0.0
        counts[phase] = max(0, due[phase]) + here
    return counts | {"other": counts["warmup"] + counts["update"]}


def _is_due(iteration: int, iterations: int, every: int) -> bool:
    return iteration in (0, iterations) or (every > 0 and iteration % every == 0)


def _due_after(iteration: int, iterations: int, every: int) -> int:
    """Count the later iterations that are a multiple of `every` (0: none), end the warm-up, or are the last one."""
    if iteration >= iterations:
        return 0
    last = every <= 0 or iterations % every > 0
    if iteration >= 0:
        return (iterations // every - iteration // every if every > 0 else 0) + last
    within = (-iteration - 1) // every if every > 0 else 0
    return within + 1 + _due_after(0, iterations, every)


def assumed_seconds(measured: Seconds, config: RunConfig) -> dict[str, float]:
    """Estimate the seconds of a rollout and of an update during the warm-up, before any was measured.

    An update is assumed to take as long per trajectory and pass as a step on demonstrations, and a rollout as long per
    trajectory as the newest evaluation. Empty before the first step.
    """
    if not measured.get("warmup"):
        return {}
    per_demonstration = float(np.quantile(measured["warmup"][-WINDOW:], MIDDLE)) / config.sft.mean_batch
    seconds = {"update": per_demonstration * config.rollout.trajectories * config.algorithm.passes}
    if evaluations := measured.get("evaluate"):
        evaluation = config.evaluation
        suites = len(config.environment.names) + len(evaluation.suites)
        played = suites * evaluation.prompts * evaluation.samples_per_prompt
        seconds["rollout"] = evaluations[-1] * config.rollout.trajectories / max(1, played)
    else:
        seconds["rollout"] = per_demonstration * config.rollout.trajectories / LEARNING_BY_SAMPLING
    return seconds


def forecast(
    measured: Seconds, remaining: Mapping[str, float], assumed: Mapping[str, float] | None = None
) -> Forecast | None:
    """Forecast the time of the remaining phases.

    The bounds assume that all phases are as fast as the fast iterations, or as slow as the slow ones. Phases that were
    never measured count as 0. There is no forecast before an update was measured, or while an upcoming rollout or step
    of the warm-up was not.

    Args:
        assumed: estimated seconds of phases that were not measured.
    """
    known = {phase: list(seconds)[-WINDOW:] for phase, seconds in measured.items() if len(seconds)}
    guessed = {phase: seconds for phase, seconds in (assumed or {}).items() if phase not in known}
    if any(
        remaining.get(phase, 0) > 0 and phase not in {*known, *guessed} for phase in ("warmup", "rollout", "update")
    ):
        return None
    low, middle, high = (
        sum(count * float(np.quantile(known[phase], at)) for phase, count in remaining.items() if phase in known)
        for at in (LOW, MIDDLE, HIGH)
    )
    width = SPREAD_OF_ONE / max(1, len(known.get("update") or known.get("warmup") or ())) ** 0.5
    rest = sum(remaining.get(phase, 0) * seconds for phase, seconds in guessed.items())
    return Forecast(
        seconds=middle + rest,
        low=min(low, middle * (1 - width)) + rest / ASSUMED_RANGE,
        high=max(high, middle * (1 + width)) + rest * ASSUMED_RANGE,
    )


def iteration_shares(measured: Seconds, config: RunConfig, iterations: int, iteration: int) -> dict[str, float]:
    """Return each phase's share of an iteration's time, in order; the sum is 1. Empty before the first is done.

    Args:
        iteration: from 1; 0 is the evaluation before the first iteration, which has no shares.
    """
    known = {phase: list(seconds)[-WINDOW:] for phase, seconds in measured.items() if len(seconds)}
    if iteration < 1 or "update" not in known:
        return {}
    due = remaining_phases(config, iterations, RunPosition("rollout", iteration))
    later = remaining_phases(config, iterations, RunPosition("checkpoint", iteration, 1.0))
    phases = [phase for phase in ORDER if phase in known and due[phase] > later[phase]]
    expected = {phase: float(np.quantile(known[phase], MIDDLE)) for phase in phases}
    total = sum(expected.values())
    return {phase: round(seconds / total, 3) for phase, seconds in expected.items()} if total > 0 else {}
