"""Verdicts on the paper's findings: each claim is tested over seeds, all claims of a study together.

A verdict is "yes" or "no" only with at least three seeds of each arm and a two-sided p value of at most 0.05 after
Holm's correction. Otherwise it is inconclusive, and the figures say how many seeds could settle it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev

from trainer.studies import significance
from trainer.studies.outcomes import WINDOW, EvaluationResult, Outcome
from trainer.studies.significance import LEVEL, MIN_SEEDS, NOTHING_SHARED, Difference, Shared, Survival
from trainer.studies.study import Finding, Study
from trainer.studies.tables import signed

UNSETTLED = "inconclusive"
_UPDATE_UNIT = "s of updates"
_TIMED_APART = "timed in different sessions or on different devices"


@dataclass(frozen=True)
class FindingVerdict:
    """Verdict on a finding in one environment, the figures behind it, and its p values (None: not tested).

    Attributes:
        complete: number of compared seeds, in the arm with fewer of them.
        planned: number of planned seeds of each arm.
        corrected: p value after Holm's correction for all tested claims of the study.
    """

    finding: str
    environment: str
    word: str
    figures: str
    complete: int
    planned: int
    p: float | None = None
    corrected: float | None = None

    @property
    def firm(self) -> bool:
        """True if all planned seeds are complete: looking earlier makes chance findings more likely."""
        return self.complete >= self.planned

    @property
    def text(self) -> str:
        """The verdict as text, marked while seeds are missing."""
        return self.word if self.firm or self.word == UNSETTLED else f"{self.word} (provisional)"


@dataclass(frozen=True)
class Evidence:
    """Evidence of the runs for one claim, before the page's other claims are taken into account."""

    figures: str
    p: float | None = None
    supports: bool = False
    opposite: str = "the opposite"
    needed: Callable[[float], str] = lambda level: ""
    """Says how many seeds could settle it, given the largest p value with which the claim would be accepted."""


@dataclass(frozen=True)
class _Claim:
    """A finding in one environment, the complete seeds behind it, and their evidence."""

    finding: Finding
    environment: str
    complete: int
    evidence: Evidence


def verdicts(
    study: Study, outcomes: Iterable[Outcome], planned: Mapping[str, int] | None = None
) -> list[FindingVerdict]:
    """Test every finding of the study in each of its environments.

    Args:
        outcomes: outcomes of complete runs.
        planned: planned seeds of each arm by environment; default: the existing ones.
    """
    results = list(outcomes)
    claims = [
        _claim(finding, environment, results)
        for finding in study.findings
        for environment in finding.environments or study.environments
    ]
    tested = [at for at, claim in enumerate(claims) if claim.evidence.p is not None]
    p_values = [p for claim in claims if (p := claim.evidence.p) is not None]
    corrected = dict(zip(tested, significance.holm(p_values), strict=True))
    others = {at: p_values[:rank] + p_values[rank + 1 :] for rank, at in enumerate(tested)}
    seeds = planned or {}
    return [
        _verdict(claim, seeds.get(claim.environment, claim.complete), corrected.get(at), others.get(at, []))
        for at, claim in enumerate(claims)
    ]


def _claim(finding: Finding, environment: str, outcomes: Sequence[Outcome]) -> _Claim:
    arm, other = (
        [outcome for outcome in outcomes if (outcome.environment, outcome.arm) == (environment, name)]
        for name in (finding.arm, finding.other)
    )
    complete = min(len(arm), len(other)) if finding.other else len(arm)
    return _Claim(finding, environment, complete, _CLAIMS[finding.claim](finding, arm, other))


def _verdict(claim: _Claim, planned: int, corrected: float | None, others: Sequence[float]) -> FindingVerdict:
    """Return the verdict; `others` are the p values of the page's other tested claims."""
    evidence = claim.evidence
    word, figures = UNSETTLED, evidence.figures
    if corrected is not None and corrected <= LEVEL:
        word = "yes" if evidence.supports else evidence.opposite
    elif corrected is not None and (needed := evidence.needed(significance.level_given(others))):
        figures = f"{figures}; {needed}"
    return FindingVerdict(
        claim.finding.text, claim.environment, word, figures, claim.complete, planned, evidence.p, corrected
    )


def _needed(value: float, spread: float, arms: int, shared: float = 0.0) -> Callable[[float], str]:
    """Return a function that says how many seeds could settle whether a difference of this size is real."""

    def describe(level: float) -> str:
        seeds = significance.seeds_for_difference(value, spread, arms=arms, level=level, shared=shared)
        return f"{seeds:,} seeds could settle it" if seeds else "no number of seeds up to 1,000 could settle it"

    return describe


def _too_few(*arms: Sequence[object]) -> str:
    """Return why arms of these sizes are not tested; empty if they are."""
    fewest = min(map(len, arms))
    if fewest >= MIN_SEEDS:
        return ""
    return f"{fewest} seed{'s' if fewest != 1 else ''} of an arm, and at least {MIN_SEEDS} are needed"


def _higher(finding: Finding, arm: list[Outcome], other: list[Outcome]) -> Evidence:
    return _success(finding, arm, other, shift=0.0)


def _not_lower(finding: Finding, arm: list[Outcome], other: list[Outcome]) -> Evidence:
    """Test non-inferiority: the difference is above −margin."""
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
        return Evidence(f"{signed(points)} points; {reason}")
    first, second = (significance.success_estimate(values, prompts) for values in rates)
    shared = _shared_error(*sides)
    difference = significance.welch(first, second, shift, shared)
    spread = math.sqrt((first.square * first.seeds + second.square * second.seeds) / 2)
    return Evidence(
        f"{signed(points)} points ({signed(100 * difference.low)} to {signed(100 * difference.high)})",
        difference.p,
        supports=difference.value + shift > 0,
        needed=_needed(difference.value + shift, spread, 2, shared.square),
    )


def _shared_error(arm: list[EvaluationResult], other: list[EvaluationResult]) -> Shared:
    """Return the error of the difference in success due to the puzzles; zero if results by puzzle are unknown."""
    counts = {len(evaluation.puzzles) for evaluation in [*arm, *other]}
    if len(counts) > 1 or max(counts) < 2:
        return NOTHING_SHARED
    return significance.shared_error([result.puzzles for result in arm], [result.puzzles for result in other])


def _collapses_later(finding: Finding, arm: list[Outcome], other: list[Outcome]) -> Evidence:
    if not arm or not other:
        return Evidence("no runs")
    figures = f"{_collapses(arm)} against {_collapses(other)}"
    if not any(o.collapse for o in [*arm, *other]):
        return Evidence(f"no run of either collapsed within {max(o.iterations for o in [*arm, *other])} iterations")
    if reason := _too_few(arm, other):
        return Evidence(f"{figures}; {reason}")
    excess, p = significance.log_rank([_survival(o) for o in arm], [_survival(o) for o in other])

    def needed(level: float) -> str:
        fewest = significance.seeds_for_log_rank(level)
        return f"{fewest} seeds could settle it" if fewest > min(len(arm), len(other)) else ""

    return Evidence(figures, p, supports=excess < 0, needed=needed)


def _survival(outcome: Outcome) -> Survival:
    return Survival(outcome.collapse or outcome.iterations, outcome.collapse is not None)


def _collapses(outcomes: list[Outcome]) -> str:
    listed = ", ".join(str(o.collapse) for o in outcomes if o.collapse)
    count = sum(o.collapse is not None for o in outcomes)
    return f"{count} of {len(outcomes)} collapsed{f' (iteration {listed})' if listed else ''}"


def _less_time(finding: Finding, arm: list[Outcome], other: list[Outcome]) -> Evidence:
    """Compare update time; not tested unless the two runs of each seed were timed together."""
    evidence = _less(lambda outcome: outcome.update_seconds, _UPDATE_UNIT)(finding, arm, other)
    if evidence.p is None or _timed_together(arm, other):
        return evidence
    means = [fmean(outcome.update_seconds for outcome in side) for side in (arm, other)]
    return Evidence(f"{_number(means[0])} {_UPDATE_UNIT} against {_number(means[1])}; {_TIMED_APART}")


def _timed_together(arm: list[Outcome], other: list[Outcome]) -> bool:
    """True if load and machine, which differ between sessions, were the same for the two arms of each seed."""
    places = {outcome.seed: outcome.timed_in for outcome in other}
    return all(places.get(outcome.seed, outcome.timed_in) == outcome.timed_in for outcome in arm)


def _number(value: float) -> str:
    """Format whole numbers from 10 on, two significant digits below: a smoke test's updates take under a second."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def _less(what: Callable[[Outcome], float], unit: str) -> Callable[[Finding, list[Outcome], list[Outcome]], Evidence]:
    """Compare a quantity above 0 by the ratio of geometric means."""

    def judge(finding: Finding, arm: list[Outcome], other: list[Outcome]) -> Evidence:
        sides = [[what(o) for o in side] for side in (arm, other)]
        if not all(sides):
            return Evidence("no runs")
        if not all(value > 0 for side in sides for value in side):
            return Evidence("nothing was measured")
        figures = f"{_number(fmean(sides[0]))} {unit} against {_number(fmean(sides[1]))}"
        if reason := _too_few(*sides):
            return Evidence(f"{figures}; {reason}")
        logs = [[math.log(value) for value in side] for side in sides]
        ratio = significance.welch(significance.estimate(logs[0]), significance.estimate(logs[1]))
        spread = math.sqrt((stdev(logs[0]) ** 2 + stdev(logs[1]) ** 2) / 2)
        return Evidence(
            f"{figures}, {math.exp(ratio.value):.0%} ({math.exp(ratio.low):.0%} to {math.exp(ratio.high):.0%})",
            ratio.p,
            supports=ratio.value < 0,
            needed=_needed(ratio.value, spread, 2),
        )

    return judge


def _falls(finding: Finding, arm: list[Outcome], other: list[Outcome]) -> Evidence:
    """Test the change from the first to the last five iterations of each seed."""
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
        needed=_needed(change.value, stdev(changes), 1),
    )


def _interval(difference: Difference) -> str:
    return f"{signed(difference.value, 2)} ({signed(difference.low, 2)} to {signed(difference.high, 2)})"


_CLAIMS: dict[str, Callable[[Finding, list[Outcome], list[Outcome]], Evidence]] = {
    "higher": _higher,
    "not_lower": _not_lower,
    "collapses_later": _collapses_later,
    "less_update_time": _less_time,
    "less_memory": _less(lambda outcome: outcome.learner_megabytes, "MiB at the learner's peak"),
    "falls": _falls,
}
