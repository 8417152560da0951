"""Verdicts on the paper's findings: each claim is tested over seeds, all claims of a study together.

A verdict is "yes" or "no" only with at least three seeds of each arm and a two-sided p value of at most 0.05 after
Holm's correction. Otherwise it is inconclusive, and the figures say how many seeds could settle it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev

from trainer.metrics.registry import get_spec
from trainer.studies import significance
from trainer.studies.outcomes import WINDOW, EvaluationResult, Outcome
from trainer.studies.significance import LEVEL, MIN_SEEDS, NOTHING_SHARED, Difference, Shared, Survival
from trainer.studies.study import Finding, Study
from trainer.studies.tables import UNSETTLED, signed

LEAST_SAVING = 0.1
"""Share of time or memory by which an arm must need less, for a verdict that it does."""
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


def verdicts(study: Study, outcomes: Iterable[Outcome], planned: int | None = None) -> list[FindingVerdict]:
    """Test every finding of the study in each of its environments.

    Args:
        outcomes: outcomes of complete runs.
        planned: planned seeds of each arm; default: the existing ones.
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
    return [
        _verdict(claim, planned or claim.complete, corrected.get(at), others.get(at, []))
        for at, claim in enumerate(claims)
    ]


def _claim(finding: Finding, environment: str, outcomes: Sequence[Outcome]) -> _Claim:
    there = [outcome for outcome in outcomes if outcome.environment == environment]
    arm, other = ([outcome for outcome in there if outcome.arm in side] for side in finding.sides)
    complete = min(sum(outcome.arm == name for outcome in there) for side in finding.sides for name in side)
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
    starts = [next((start for o in side if (start := o.first(finding.suite))), None) for side in (arm, other)]
    if finding.gain and None in starts:
        return Evidence("no evaluations before training")
    begun = [start for start in starts if start is not None] if finding.gain else []
    rates = [[evaluation.success for evaluation in side] for side in sides]
    prompts = min(evaluation.prompts for side in sides for evaluation in side)
    ahead = begun[0].success - begun[1].success if begun else 0.0
    points = 100 * (fmean(rates[0]) - fmean(rates[1]) - ahead)
    if reason := _too_few(*rates):
        return Evidence(f"{signed(points)} points; {reason}")
    first, second = (significance.success_estimate(values, prompts) for values in rates)
    shared = _shared_error(sides[0], sides[1], begun)
    difference = significance.welch(replace(first, value=first.value - ahead), second, shift, shared)
    spread = math.sqrt((first.square * first.seeds + second.square * second.seeds) / 2)
    return Evidence(
        f"{signed(points)} points ({signed(100 * difference.low)} to {signed(100 * difference.high)})",
        difference.p,
        supports=difference.value + shift > 0,
        needed=_needed(difference.value + shift, spread, 2, shared.square),
    )


def _higher_in_strata(finding: Finding, arm: list[Outcome], other: list[Outcome]) -> Evidence:
    """Test the mean difference over strata by permuting seeds within them, on the puzzles that were played."""
    rates_by_arm: dict[str, list[float]] = {}
    for outcome in [*arm, *other]:
        if evaluation := outcome.final(finding.suite):
            rates_by_arm.setdefault(outcome.arm, []).append(evaluation.success)
    strata = [
        ([rates_by_arm.get(name, []) for name in arms], [rates_by_arm.get(name, []) for name in others])
        for arms, others in finding.strata
    ]
    everyone = [rates for sides in strata for side in sides for rates in side]
    if reason := _too_few(*everyone):
        return Evidence(reason)
    difference = significance.stratified(strata)
    counts = [sum(len(rates) for sides in strata for rates in sides[side]) for side in (0, 1)]
    return Evidence(
        f"{signed(100 * difference.value)} points ({signed(100 * difference.low)} to {signed(100 * difference.high)}) "
        f"in {counts[0]} runs against {counts[1]}",
        difference.p,
        supports=difference.value > 0,
    )


def _shared_error(
    arm: list[EvaluationResult], other: list[EvaluationResult], begun: Sequence[EvaluationResult]
) -> Shared:
    """Return the error of the difference in success, or in its gain, that all seeds share.

    It is due to the puzzles, and to chance in the single evaluation of each arm before training (`begun`, for claims
    about the gain). Without results by puzzle only the latter is known.
    """
    counts = {len(evaluation.puzzles) for evaluation in [*arm, *other, *begun]}
    if len(counts) > 1 or max(counts) < 2:
        square = sum(start.success * (1 - start.success) / start.prompts for start in begun)
        return Shared(square, max(1, min(start.prompts for start in begun) - 1)) if begun else NOTHING_SHARED
    before = [start.puzzles for start in begun] or [(0.0,) * max(counts)] * 2
    gains = [
        [[end - start for end, start in zip(evaluation.puzzles, starts, strict=True)] for evaluation in side]
        for side, starts in zip((arm, other), before, strict=True)
    ]
    return significance.shared_error(*gains)


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
    """Compare a quantity above 0 by the ratio of geometric means: "less" is less by a tenth at least.

    Costs hardly vary between seeds, so that a difference of a thousandth would be found, and means nothing.
    """

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
        least = -math.log(1 - LEAST_SAVING)
        ratio = significance.welch(significance.estimate(logs[0]), significance.estimate(logs[1]), shift=least)
        spread = math.sqrt((stdev(logs[0]) ** 2 + stdev(logs[1]) ** 2) / 2)
        return Evidence(
            f"{figures}, {math.exp(ratio.value):.0%} ({math.exp(ratio.low):.0%} to {math.exp(ratio.high):.0%})",
            ratio.p,
            supports=ratio.value + least < 0,
            opposite=f"not by {LEAST_SAVING:.0%}",
            needed=_needed(ratio.value + least, spread, 2),
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
    figures = " → ".join(_metric_text(finding.metric, fmean(values)) for values in zip(*pairs, strict=True))
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


def _metric_higher(finding: Finding, arm: list[Outcome], other: list[Outcome]) -> Evidence:
    """Compare the mean of a metric over the last five iterations of each seed."""
    sides = [[value for o in side if (value := o.last(finding.metric)) is not None] for side in (arm, other)]
    if not all(sides):
        return Evidence("not measured")
    figures = " against ".join(_metric_text(finding.metric, fmean(values)) for values in sides)
    if reason := _too_few(*sides):
        return Evidence(f"{figures}; {reason}")
    difference = significance.welch(significance.estimate(sides[0]), significance.estimate(sides[1]))
    spread = math.sqrt(fmean(stdev(values) ** 2 for values in sides))
    return Evidence(
        f"{figures}, difference {_interval(difference)}",
        difference.p,
        supports=difference.value > 0,
        needed=_needed(difference.value, spread, 2),
    )


def _metric_text(metric: str, value: float) -> str:
    return f"{100 * value:.1f}%" if get_spec(metric).unit == "share" else f"{value:.1f}"


def _interval(difference: Difference) -> str:
    return f"{signed(difference.value, 2)} ({signed(difference.low, 2)} to {signed(difference.high, 2)})"


_CLAIMS: dict[str, Callable[[Finding, list[Outcome], list[Outcome]], Evidence]] = {
    "higher": _higher,
    "higher_in_strata": _higher_in_strata,
    "metric_higher": _metric_higher,
    "not_lower": _not_lower,
    "collapses_later": _collapses_later,
    "less_update_time": _less_time,
    "less_memory": _less(lambda outcome: outcome.learner_megabytes, "MiB at the learner's peak"),
    "falls": _falls,
}
