"""Verdicts on the paper's findings: each claim is tested over seeds, all claims of a study together.

A verdict is "yes" or "no" only with at least three seeds of each arm and a two-sided p value of at most 0.05 after
Holm's correction. Otherwise it is inconclusive, and the figures say how many seeds could settle it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev

from trainer.studies import significance
from trainer.studies.results import WINDOW, Outcome
from trainer.studies.significance import LEVEL, MIN_SEEDS, Difference, Survival
from trainer.studies.study import Finding, Study

UNSETTLED = "inconclusive"


@dataclass(frozen=True)
class FindingVerdict:
    """Verdict on a finding in one environment, the figures behind it, and its p values (None: not tested)."""

    finding: str
    environment: str
    word: str
    figures: str
    p: float | None = None
    corrected: float | None = None
    """After Holm's correction for all claims of the study that were tested."""


@dataclass(frozen=True)
class Evidence:
    """What the runs say about one claim, before the other claims of the page are taken into account."""

    figures: str
    p: float | None = None
    supports: bool = False
    opposite: str = "the opposite"
    seeds: Callable[[int], int | None] = lambda claims: None
    """Seeds per arm that could settle it, by the number of claims; None if no number up to 1,000 could."""


def verdicts(study: Study, outcomes: Iterable[Outcome]) -> list[FindingVerdict]:
    """Test every finding of the study in every environment that it is about."""
    results = list(outcomes)
    named: list[tuple[Finding, str, Evidence]] = []
    for finding in study.findings:
        for environment in finding.environments or study.environments:
            arm = [o for o in results if (o.environment, o.arm) == (environment, finding.arm)]
            other = [o for o in results if (o.environment, o.arm) == (environment, finding.other)]
            named.append((finding, environment, _CLAIMS[finding.claim](finding, arm, other)))
    p_values = [evidence.p for _, _, evidence in named if evidence.p is not None]
    corrected = iter(significance.holm(p_values))
    return [
        _verdict(finding, environment, evidence, None if evidence.p is None else next(corrected), len(p_values))
        for finding, environment, evidence in named
    ]


def _verdict(
    finding: Finding, environment: str, evidence: Evidence, corrected: float | None, claims: int
) -> FindingVerdict:
    if corrected is not None and corrected <= LEVEL:
        word, figures = "yes" if evidence.supports else evidence.opposite, evidence.figures
    else:
        word, figures = UNSETTLED, evidence.figures
        if corrected is not None:
            seeds = evidence.seeds(claims)
            needed = f"{seeds:,} seeds could settle it" if seeds else "no number of seeds up to 1,000 could settle it"
            figures = f"{figures}; {needed}"
    return FindingVerdict(finding.words, environment, word, figures, evidence.p, corrected)


def _too_few(*arms: Sequence[object]) -> str:
    """Why arms of these sizes are not tested; empty if they are."""
    fewest = min(map(len, arms))
    if fewest >= MIN_SEEDS:
        return ""
    return f"{fewest} seed{'s' if fewest != 1 else ''} of an arm, and at least {MIN_SEEDS} are needed"


def _higher(finding: Finding, arm: list[Outcome], other: list[Outcome]) -> Evidence:
    return _success(finding, arm, other, shift=0.0)


def _not_lower(finding: Finding, arm: list[Outcome], other: list[Outcome]) -> Evidence:
    """Non-inferiority: the difference lies above −margin."""
    evidence = _success(finding, arm, other, shift=finding.margin)
    return replace(evidence, opposite="no", figures=f"{evidence.figures}; margin {100 * finding.margin:.0f} points")


def _success(finding: Finding, arm: list[Outcome], other: list[Outcome], shift: float) -> Evidence:
    sides = [[evaluation for o in side if (evaluation := o.final(finding.suite))] for side in (arm, other)]
    if not all(sides):
        return Evidence("no evaluations")
    rates = [[evaluation.success for evaluation in side] for side in sides]
    prompts = min(evaluation.prompts for side in sides for evaluation in side)
    points = 100 * (fmean(rates[0]) - fmean(rates[1]))
    if reason := _too_few(*rates):
        return Evidence(f"{points:+.1f} points; {reason}")
    first, second = (significance.success_estimate(values, prompts) for values in rates)
    difference = significance.welch(first, second, shift)
    spread = math.sqrt((first.square * first.seeds + second.square * second.seeds) / 2)
    return Evidence(
        f"{points:+.1f} points ({100 * difference.low:+.1f} to {100 * difference.high:+.1f})",
        difference.p,
        supports=difference.value + shift > 0,
        seeds=lambda claims: significance.seeds_for_difference(difference.value + shift, spread, arms=2, claims=claims),
    )


def _collapses_later(finding: Finding, arm: list[Outcome], other: list[Outcome]) -> Evidence:
    if not arm or not other:
        return Evidence("no runs")
    figures = f"{_collapses(arm)} against {_collapses(other)}"
    if not any(o.collapse for o in [*arm, *other]):
        return Evidence(f"no run of either collapsed within {max(o.iterations for o in [*arm, *other])} iterations")
    if reason := _too_few(arm, other):
        return Evidence(f"{figures}; {reason}")
    excess, p = significance.log_rank([_survival(o) for o in arm], [_survival(o) for o in other])
    return Evidence(figures, p, supports=excess < 0, seeds=significance.seeds_for_log_rank)


def _survival(outcome: Outcome) -> Survival:
    return Survival(outcome.collapse or outcome.iterations, outcome.collapse is not None)


def _collapses(outcomes: list[Outcome]) -> str:
    listed = ", ".join(str(o.collapse) for o in outcomes if o.collapse)
    count = sum(o.collapse is not None for o in outcomes)
    return f"{count} of {len(outcomes)} collapsed{f' (iteration {listed})' if listed else ''}"


def _less(what: Callable[[Outcome], float], unit: str) -> Callable[[Finding, list[Outcome], list[Outcome]], Evidence]:
    """A quantity above 0, compared by the ratio of geometric means."""

    def judge(finding: Finding, arm: list[Outcome], other: list[Outcome]) -> Evidence:
        sides = [[what(o) for o in side] for side in (arm, other)]
        if not all(sides):
            return Evidence("no runs")
        if not all(value > 0 for side in sides for value in side):
            return Evidence("nothing was measured")
        figures = f"{fmean(sides[0]):,.0f} {unit} against {fmean(sides[1]):,.0f}"
        if reason := _too_few(*sides):
            return Evidence(f"{figures}; {reason}")
        logs = [[math.log(value) for value in side] for side in sides]
        ratio = significance.welch(significance.estimate(logs[0]), significance.estimate(logs[1]))
        spread = math.sqrt((stdev(logs[0]) ** 2 + stdev(logs[1]) ** 2) / 2)
        return Evidence(
            f"{figures}, {math.exp(ratio.value):.0%} ({math.exp(ratio.low):.0%} to {math.exp(ratio.high):.0%})",
            ratio.p,
            supports=ratio.value < 0,
            seeds=lambda claims: significance.seeds_for_difference(ratio.value, spread, arms=2, claims=claims),
        )

    return judge


def _falls(finding: Finding, arm: list[Outcome], other: list[Outcome]) -> Evidence:
    """The change from the first to the last five iterations of each seed."""
    pairs = []
    for outcome in arm:
        values = [value for _, value in sorted(outcome.curves.get(finding.metric, {}).items())]
        if len(values) >= 2:
            window = min(WINDOW, len(values) // 2)
            pairs.append((fmean(values[:window]), fmean(values[-window:])))
    if not pairs:
        return Evidence("too few iterations")
    figures = "{:.1f} → {:.1f}".format(*map(fmean, zip(*pairs, strict=True)))
    if reason := _too_few(pairs):
        return Evidence(f"{figures}; {reason}")
    changes = [last - first for first, last in pairs]
    change = significance.change(changes)
    return Evidence(
        f"{figures}, change {_interval(change)}",
        change.p,
        supports=change.value < 0,
        seeds=lambda claims: significance.seeds_for_difference(change.value, stdev(changes), arms=1, claims=claims),
    )


def _interval(difference: Difference) -> str:
    return f"{difference.value:+.2f} ({difference.low:+.2f} to {difference.high:+.2f})"


_CLAIMS: dict[str, Callable[[Finding, list[Outcome], list[Outcome]], Evidence]] = {
    "higher": _higher,
    "not_lower": _not_lower,
    "collapses_later": _collapses_later,
    "less_update_time": _less(lambda outcome: outcome.update_seconds, "s of updates"),
    "less_memory": _less(lambda outcome: outcome.learner_megabytes, "MiB"),
    "falls": _falls,
}
