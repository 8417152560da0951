"""Estimates of how much two arms of a study differ in success. Verdicts do not use them.

Source: R. Agarwal et al. 2021, "Deep Reinforcement Learning at the Edge of the Statistical Precipice" (interquartile
mean with a stratified bootstrap, probability of improvement); D. Schuirmann 1987 (equivalence by two one-sided tests).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainer.studies import significance
from trainer.studies.outcomes import EvaluationResult, Outcome
from trainer.studies.significance import LEVEL, MIN_SEEDS
from trainer.studies.study import Study

DRAWS = 2000
"""Number of bootstrap samples of the seeds of each arm."""
EQUIVALENCE_MARGIN = 0.05
"""Difference in success, as a share of puzzles, below which arms count as equal."""


@dataclass(frozen=True)
class Range:
    """A value with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class ArmDifference:
    """How an arm differs from another in one environment and suite.

    Attributes:
        iqm: difference of the interquartile means of final success over seeds, as a share of puzzles.
        improvement: probability that a seed of the arm ends higher than one of the other; ties count half.
        paired: mean difference of runs with the same seed; None with fewer than two such pairs.
        area: difference of the mean success over the whole training; None without several evaluations.
        equivalent: whether the 90 % interval of the difference lies within EQUIVALENCE_MARGIN.
    """

    finding: str
    environment: str
    iqm: Range
    improvement: Range
    paired: Range | None
    area: Range | None
    equivalent: bool


def differences(study: Study, outcomes: Sequence[Outcome]) -> list[ArmDifference]:
    """Return the differences of the arms of each claim about final success with three complete seeds of each arm."""
    found = []
    for finding in study.findings:
        if finding.claim not in ("higher", "not_lower") or finding.gain:
            continue
        for environment in finding.environments or study.environments:
            arm, other = (
                [o for o in outcomes if (o.environment, o.arm) == (environment, name) and o.final(finding.suite)]
                for name in (finding.arm, finding.other)
            )
            if min(len(arm), len(other)) >= MIN_SEEDS:
                found.append(_difference(finding.text, environment, finding.suite, arm, other))
    return found


def _difference(
    finding: str, environment: str, suite: str, arm: Sequence[Outcome], other: Sequence[Outcome]
) -> ArmDifference:
    first, second = ([_final(outcome, suite).success for outcome in side] for side in (arm, other))
    prompts = min(_final(outcome, suite).prompts for outcome in (*arm, *other))
    means = [significance.success_estimate(values, prompts) for values in (first, second)]
    one_sided = [
        significance.welch(means[0], means[1], shift).p / 2 for shift in (-EQUIVALENCE_MARGIN, EQUIVALENCE_MARGIN)
    ]
    within = abs(means[0].value - means[1].value) < EQUIVALENCE_MARGIN and max(one_sided) <= LEVEL
    by_seed = {outcome.seed: _final(outcome, suite).success for outcome in other}
    pairs = [_final(o, suite).success - by_seed[o.seed] for o in arm if o.seed in by_seed]
    curves = [[area_under(outcome.evaluations[suite or outcome.suite]) for outcome in side] for side in (arm, other)]
    own, others = ([area for area in side if area is not None] for side in curves)
    return ArmDifference(
        finding,
        environment,
        _bootstrap(first, second, lambda a, b: interquartile_mean(a) - interquartile_mean(b)),
        _bootstrap(first, second, _improvement),
        _range(significance.change(pairs)) if len(pairs) > 1 else None,
        _bootstrap(own, others, lambda a, b: a.mean(axis=-1) - b.mean(axis=-1)) if own and others else None,
        within,
    )


def _final(outcome: Outcome, suite: str) -> EvaluationResult:
    result = outcome.final(suite)
    assert result is not None
    return result


def _range(difference: significance.Difference) -> Range:
    return Range(difference.value, difference.low, difference.high)


def interquartile_mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean of the middle half along the last axis; as in rliable, whole values are left out at both ends."""
    count = values.shape[-1]
    cut = int(0.25 * count)
    middle: NDArray[np.float64] = np.sort(values, axis=-1)[..., cut : count - cut].mean(axis=-1)
    return middle


def _improvement(arm: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return P(arm > other) + P(arm = other) / 2 along the last axes, the Mann–Whitney statistic."""
    gaps = arm[..., :, None] - other[..., None, :]
    share: NDArray[np.float64] = ((gaps > 0) + 0.5 * (gaps == 0)).mean(axis=(-2, -1))
    return share


def area_under(evaluations: Iterable[EvaluationResult]) -> float | None:
    """Return the mean success over the iterations of training, by trapezoids; None with fewer than two evaluations."""
    points = sorted((result.iteration, result.success) for result in evaluations if result.iteration >= 0)
    if len(points) < 2 or points[0][0] == points[-1][0]:
        return None
    iterations, successes = zip(*points, strict=True)
    area = float(np.trapezoid(successes, iterations))
    return area / float(iterations[-1] - iterations[0])


Statistic = Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]]


def _bootstrap(arm: Sequence[float], other: Sequence[float], statistic: Statistic) -> Range:
    """Return a statistic of two arms with its percentile interval; seeds are drawn again within each arm."""
    random = np.random.default_rng(0)
    sides = [np.asarray(side, dtype=float) for side in (arm, other)]
    drawn = [side[random.integers(len(side), size=(DRAWS, len(side)))] for side in sides]
    low, high = np.quantile(statistic(*drawn), [LEVEL / 2, 1 - LEVEL / 2])
    return Range(float(statistic(*sides)), float(low), float(high))
