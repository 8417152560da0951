"""Verdicts on claims: yes and no only where seeds, test and the number of claims allow it."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest

from tests.tiers import nightly_but
from trainer.studies import significance
from trainer.studies.catalogue import STUDIES, find
from trainer.studies.outcomes import GPU_MEMORY, OWN_GPU_MEMORY, EvaluationResult, Outcome
from trainer.studies.study import Claim, Finding
from trainer.studies.verdicts import UNSETTLED, verdicts

THREE = range(3)


def outcome(arm, seed, success=0.5, curve=(), environment="sokoban", **more):
    evaluation = EvaluationResult(10, 100, success, 0, 1)
    curves = {"success/rate": dict(enumerate(curve, start=1))}
    return Outcome(
        environment,
        arm,
        seed,
        len(curve),
        curves | more.pop("curves", {}),
        {"Sokoban": [evaluation]},
        "Sokoban",
        **more,
    )


def verdict_on(claim, *outcomes, **more):
    study = replace(
        find("figure-9"), environments=("sokoban",), findings=(Finding("so it is", claim, "a", "b", **more),)
    )
    (verdict,) = verdicts(study, outcomes)
    return verdict


def word(claim, *outcomes, **more):
    return verdict_on(claim, *outcomes, **more).word


def swapped(outcomes):
    return [replace(o, arm={"a": "b", "b": "a"}[o.arm]) for o in outcomes]


def test_a_clear_difference_is_found_and_its_opposite():
    clear = [outcome("a", n, 0.8 + n / 100) for n in THREE] + [outcome("b", n, 0.4 + n / 100) for n in THREE]
    assert word("higher", *clear) == "yes"
    assert word("not_lower", *clear) == "yes"
    assert word("higher", *swapped(clear)) == "the opposite"
    assert word("not_lower", *swapped(clear)) == "no"


def test_a_single_seed_is_inconclusive():
    verdict = verdict_on("higher", outcome("a", 0, 0.9), outcome("b", 0, 0.1))
    assert verdict.word == UNSETTLED
    assert "at least 3 are needed" in verdict.figures
    assert verdict.p is None
    assert verdict_on("higher").figures == "no evaluations"


def test_missing_evidence_is_not_evidence_of_equality():
    """20, 35 and 50 % against 42, 50 and 58 %: −15 points with a wide interval."""
    arms = [outcome("a", n, s) for n, s in enumerate((0.2, 0.35, 0.5))]
    arms += [outcome("b", n, s) for n, s in enumerate((0.42, 0.5, 0.58))]
    verdict = verdict_on("not_lower", *arms)
    assert verdict.word == UNSETTLED
    assert "−15.0 points" in verdict.figures
    assert "margin 5 points" in verdict.figures
    assert "seeds could settle it" in verdict.figures


def test_an_equal_arm_is_not_lower_once_there_are_seeds_enough():
    equal = [outcome(arm, n, 0.5 + 0.01 * (n % 3 - 1)) for arm in "ab" for n in range(8)]
    assert word("higher", *equal) == UNSETTLED
    assert word("not_lower", *equal, margin=0.1) == "yes"


def played_alike(arm, solved, seeds=5):
    """Seeds of an arm that all solve the same puzzles of 100, but one each."""
    made = []
    for seed in range(seeds):
        puzzles = [float(n in solved and n != seed) for n in range(100)]
        evaluation = EvaluationResult(10, 100, sum(puzzles) / 100, 0, 1, tuple(puzzles))
        made.append(replace(outcome(arm, seed), evaluations={"Sokoban": [evaluation]}))
    return made


def test_arms_that_solve_other_puzzles_differ_by_less_than_their_seeds_suggest():
    """35 against 25 of 100 puzzles, in each of five seeds; either all of the 25 are among the 35, or none is."""
    above = played_alike("a", set(range(35)))
    among, apart = played_alike("b", set(range(25))), played_alike("b", set(range(60, 85)))
    nested, crossed = verdict_on("higher", *above, *among), verdict_on("higher", *above, *apart)
    assert nested.word == "yes"
    assert crossed.word == UNSETTLED
    assert crossed.figures.endswith("no number of seeds up to 1,000 could settle it")
    unknown = [replace(run, evaluations={"Sokoban": [replace(run.final(), puzzles=())]}) for run in (*above, *apart)]
    assert verdict_on("higher", *unknown).word == "yes", "of these puzzles only"


STEADY, FALLEN = [0.5] * 30, [0.5] * 10 + [0.0] * 20


def collapsing(arms, seeds):
    return [outcome(arm, n, curve=curve) for arm, curve in arms.items() for n in range(seeds)]


def test_collapses_need_four_seeds_of_each_arm():
    later = {"a": STEADY, "b": FALLEN}
    verdict = verdict_on("collapses_later", *collapsing(later, 3))
    assert (verdict.word, verdict.p) == (UNSETTLED, pytest.approx(0.1))
    assert verdict.figures.startswith("0 of 3 collapsed against 3 of 3 collapsed (iteration ")
    assert verdict.figures.endswith("4 seeds could settle it")
    assert word("collapses_later", *collapsing(later, 4)) == "yes"
    assert word("collapses_later", *swapped(collapsing(later, 4))) == "the opposite"
    assert "no run of either" in verdict_on("collapses_later", *collapsing({"a": STEADY, "b": STEADY}, 4)).figures


def test_seeds_that_could_settle_a_collapse_depend_on_the_other_claims_of_the_page():
    """Three of three against none: p = 0.1. Beside two certain claims, four seeds suffice; beside open ones, five."""
    study = replace(
        find("figure-9"),
        environments=("sokoban",),
        findings=(
            Finding("later", "collapses_later", "a", "b"),
            *(Finding(f"claim {n}", "higher", "a", "b") for n in range(2)),
        ),
    )
    arms = {"a": STEADY, "b": FALLEN}
    for higher, seeds in ((0.4, 4), (0.0, 5)):
        runs = [
            outcome(arm, n, 0.4 + (higher if arm == "a" else 0.0) + n / 100, curve)
            for arm, curve in arms.items()
            for n in THREE
        ]
        later, *others = verdicts(study, runs)
        assert {verdict.word for verdict in others} == {"yes" if higher else UNSETTLED}
        assert later.figures.endswith(f"; {seeds} seeds could settle it")
    enough = [
        outcome(arm, n, 0.8 - 0.4 * (arm == "b") + n / 100, curve) for arm, curve in arms.items() for n in range(4)
    ]
    assert [verdict.word for verdict in verdicts(study, enough)] == ["yes"] * 3


def test_no_fewer_seeds_than_there_are_could_settle_a_collapse():
    runs = [*collapsing({"a": STEADY}, 6), *collapsing({"b": STEADY}, 4), *collapsing({"b": FALLEN}, 2)]
    runs = [replace(run, seed=n) for n, run in enumerate(runs)]
    verdict = verdict_on("collapses_later", *runs)
    assert verdict.word == UNSETTLED
    assert "could settle" not in verdict.figures


def test_times_of_different_sessions_are_not_compared():
    def timed(arm, seed, seconds, *place):
        return outcome(arm, seed, curves={"time/update": {1: seconds + seed}}, timed_in=place)

    apart = [timed("a", n, 10.0, "here") for n in THREE] + [timed("b", n, 20.0, "elsewhere") for n in THREE]
    verdict = verdict_on("less_update_time", *apart)
    assert (verdict.word, verdict.p, verdict.corrected) == (UNSETTLED, None, None)
    assert verdict.figures == "11 s of updates against 21; timed in different sessions or on different devices"
    short = timed("a", 0, 0.1, "here"), timed("b", 0, 0.25, "elsewhere")
    assert verdict_on("less_update_time", *short).figures.startswith("0.1 s of updates against 0.25")
    together = [timed(arm, n, s, "here", str(n)) for arm, s in (("a", 10.0), ("b", 20.0)) for n in THREE]
    assert word("less_update_time", *together) == "yes", "each seed in a session of its own"
    assert word("less_update_time", *together, timed("b", 3, 20.0, "alone")) == "yes", "a seed that has no counterpart"
    again = [*together[:-1], timed("b", 2, 20.0, "here", "2", "after a stop")]
    assert word("less_update_time", *again) == UNSETTLED


def test_one_collapse_of_three_is_inconclusive():
    runs = [*collapsing({"a": STEADY}, 3), *collapsing({"b": STEADY}, 2), outcome("b", 2, curve=FALLEN)]
    assert word("collapses_later", *runs) == UNSETTLED


def test_costs_and_lengths_are_compared_over_seeds():
    def taking(arm, seed, seconds, megabytes, length, gigabytes=0.0):
        curves = {"time/update": {1: seconds + seed}, "length/think": dict(enumerate(length, start=1))}
        if gigabytes:
            curves |= {GPU_MEMORY: {1: 64 * 2**30}, OWN_GPU_MEMORY: {1: gigabytes * 2**30}}
        return outcome(arm, seed, curves=curves, megabytes=megabytes + seed)

    pair = [taking("a", n, 10.0, 50.0, [9, 9, 4 - n / 10, 3]) for n in THREE]
    pair += [taking("b", n, 20.0, 100.0, [5, 5, 5, 5]) for n in THREE]
    assert word("less_update_time", *pair) == "yes"
    assert word("less_memory", *pair) == "yes"
    assert word("falls", *pair, metric="length/think") == "yes"
    assert (
        verdict_on("less_memory", *[outcome(arm, n) for arm in "ab" for n in THREE]).figures == "nothing was measured"
    )
    assert "MiB at the learner's peak" in verdict_on("less_memory", *pair).figures
    on_gpus = [taking(arm, n, 1, mib, [1], g) for arm, mib, g in (("a", 90, 8), ("b", 80, 16)) for n in THREE]
    assert word("less_memory", *on_gpus) == "yes", "of the run on its GPU, not of the host or of its neighbours"


def test_a_tiny_wandering_change_is_no_fall():
    runs = [outcome("a", n, curves={"length/think": {1: 20.01, 2: 20.0 + n / 10}}) for n in THREE]
    assert word("falls", *runs, metric="length/think") == UNSETTLED


def test_a_metric_is_compared_at_the_end_of_the_runs():
    def claims(arm, seed, *shares):
        return outcome(arm, seed, curves={"claims/true_share": dict(enumerate(shares, start=1))})

    runs = [claims("a", n, 0.1, *[0.9 + n / 100] * 5) for n in THREE] + [
        claims("b", n, 0.9, *[0.6 + n / 100] * 5) for n in THREE
    ]
    verdict = verdict_on("metric_higher", *runs, metric="claims/true_share")
    assert verdict.word == "yes"
    assert verdict.figures.startswith("91.0% against 61.0%, difference +0.30 ")
    assert word("metric_higher", *swapped(runs), metric="claims/true_share") == "the opposite"
    assert verdict_on("metric_higher", *runs, metric="length/think").figures == "not measured"
    assert word("metric_higher", *runs[:2], *runs[3:], metric="claims/true_share") == UNSETTLED


def test_what_cannot_be_compared_is_said():
    without = [replace(outcome(arm, n), evaluations={}) for arm in "ab" for n in THREE]
    assert verdict_on("higher", *without).figures == "no evaluations"
    assert verdict_on("higher", *without, gain=True).figures == "no evaluations"
    ends = [outcome(arm, n) for arm in "ab" for n in THREE]
    assert verdict_on("higher", *ends, gain=True).figures == "no evaluations before training"
    assert verdict_on("collapses_later").figures == "no runs"
    assert verdict_on("less_memory").figures == "no runs"
    assert verdict_on("falls", *ends, metric="length/think").figures == "too few iterations"
    strata = ((("a",), ("b",)),)
    few = [outcome("a", 0), outcome("b", 0)]
    assert "at least 3 are needed" in verdict_on("higher_in_strata", *few, strata=strata).figures


def test_many_claims_of_a_page_are_corrected_together():
    close = [outcome("a", n, 0.75 + n / 100) for n in THREE] + [outcome("b", n, 0.56 + n / 100) for n in THREE]
    alone = verdict_on("higher", *close)
    assert alone.word == "yes"
    assert alone.p == alone.corrected
    study = replace(
        find("figure-9"),
        environments=("sokoban",),
        findings=tuple(Finding(f"claim {n}", "higher", "a", "b") for n in range(20)),
    )
    together = verdicts(study, close)
    assert {verdict.word for verdict in together} == {UNSETTLED}
    assert together[0].corrected == pytest.approx(min(1, 20 * alone.p))


PAGES = 250
WITHIN_NOISE = 0.05 + 3 * (0.05 * 0.95 / PAGES) ** 0.5


def alike(study, seeds, random):
    """Runs of a study whose arms do not differ; on FrozenLake, results by puzzle are not known."""
    puzzles = random.uniform(0, 0.8, 64)
    runs = []
    for environment in study.environments:
        for arm in study.arms:
            for seed in range(seeds):
                at = int(random.integers(6, 30))
                curve = ([0.5] * at + [0.0] * (40 - at)) if random.uniform() < 0.7 else [0.5] * 40
                made = outcome(arm.name, seed, 0.0, curve, environment, megabytes=float(random.lognormal(7, 0.1)))
                made.curves["time/update"] = {1: float(random.lognormal(4, 0.1))}
                made.curves["length/think"] = dict(enumerate(20 + random.standard_normal(40).cumsum(), start=1))
                made.curves["claims/true_share"] = {
                    at: 0.8 + drift / 100 for at, drift in enumerate(random.standard_normal(40).cumsum(), start=1)
                }
                for suite in ("Sokoban", *study.get_suites(environment)):
                    played = random.uniform(size=64) < puzzles + random.normal(0, 0.05)
                    known = tuple(map(float, played)) if environment != "frozen_lake" else ()
                    made.evaluations[suite] = [EvaluationResult(40, 64, float(played.mean()), 0, 1, known)]
                runs.append(made)
    return runs


def claims_of(study):
    return {finding.claim for finding in study.findings}


def without_margins(study):
    """Equal arms are rightly called no worse, and not a tenth cheaper."""
    rightly = {"not_lower", "less_update_time", "less_memory"}
    return replace(study, findings=tuple(finding for finding in study.findings if finding.claim not in rightly))


@pytest.mark.parametrize("seeds", nightly_but([3, 5], [3]))
@pytest.mark.parametrize("name", nightly_but(STUDIES, ["table-3", "figure-9"]))
def test_a_page_of_equal_arms_has_a_verdict_in_at_most_five_percent_of_cases(name, seeds):
    """Claims of all kinds; nine of three kinds in figure 9, and in table 3 several against the same arm."""
    study, random = without_margins(find(name)), np.random.default_rng([seeds, *name.encode()])
    wrong = sum(
        any(verdict.word != UNSETTLED for verdict in verdicts(study, alike(study, seeds, random))) for _ in range(PAGES)
    )
    assert wrong / PAGES <= WITHIN_NOISE, "5 % and three standard errors of this simulation"


def test_the_simulated_pages_hold_every_kind_of_claim():
    simulated = set.union(*(claims_of(without_margins(study)) for study in STUDIES.values()))
    assert simulated == set(get_args(Claim)) - {"not_lower", "less_update_time", "less_memory"}


@pytest.mark.parametrize("seeds", [3, 5])
def test_an_arm_that_is_lower_by_the_margin_is_rarely_called_no_worse(seeds):
    random, wrong = np.random.default_rng(seeds), 0
    for _ in range(PAGES):
        runs = [
            outcome(arm, seed, float(np.clip(random.normal(mean, 0.03), 0, 1)))
            for arm, mean in (("a", 0.40), ("b", 0.45))
            for seed in range(seeds)
        ]
        wrong += word("not_lower", *runs) == "yes"
    assert wrong / PAGES <= WITHIN_NOISE


@pytest.mark.parametrize("name", [name for name, study in STUDIES.items() if "collapses_later" in claims_of(study)])
def test_the_default_seeds_can_settle_a_collapse_at_the_scale_of_the_paper(name):
    """If all runs of one arm collapse before those of the other, after the correction for all claims of the page."""
    study = find(name)
    claims = sum(len(finding.environments or study.environments) for finding in study.findings)
    assert study.seeds["paper"] >= significance.seeds_for_log_rank(significance.LEVEL / claims)


@pytest.mark.parametrize("seeds", [3, 5])
@pytest.mark.parametrize("claim", ["less_update_time", "less_memory"])
def test_costs_that_are_less_by_a_tenth_are_rarely_judged(claim, seeds):
    """The least saving is a tenth. Costs vary by as much; some are doubled for both arms of a seed."""
    random = np.random.default_rng(seeds)
    wrong = 0
    for _ in range(600):
        load = np.exp2(random.uniform(size=seeds) < 0.2)
        costs = random.lognormal(4, 0.1, (2, seeds)) * load * [[0.9], [1.0]]
        runs = [
            outcome(arm, n, curves={"time/update": {1: float(cost)}}, megabytes=float(cost))
            for arm, side in zip("ab", costs, strict=True)
            for n, cost in enumerate(side)
        ]
        wrong += word(claim, *runs) != UNSETTLED
    assert wrong / 600 <= 0.077, "5 % and three standard errors of this simulation"
