"""Verdicts on claims: yes and no only where seeds, test and the number of claims allow it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from trainer.studies import page
from trainer.studies.catalogue import find
from trainer.studies.results import GPU_MEMORY, EvaluationResult, Outcome
from trainer.studies.study import Finding
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
    assert "-15.0 points" in verdict.figures
    assert "margin 5 points" in verdict.figures
    assert "seeds could settle it" in verdict.figures


def test_an_equal_arm_is_not_lower_once_there_are_seeds_enough():
    equal = [outcome(arm, n, 0.5 + 0.01 * (n % 3 - 1)) for arm in "ab" for n in range(8)]
    assert word("higher", *equal) == UNSETTLED
    assert word("not_lower", *equal, margin=0.1) == "yes"


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


def test_one_collapse_of_three_is_inconclusive():
    runs = [*collapsing({"a": STEADY}, 3), *collapsing({"b": STEADY}, 2), outcome("b", 2, curve=FALLEN)]
    assert word("collapses_later", *runs) == UNSETTLED


def test_costs_and_lengths_are_compared_over_seeds():
    def taking(arm, seed, seconds, megabytes, length, gigabytes=0.0):
        curves = {"time/update": {1: seconds + seed}, "length/think": dict(enumerate(length, start=1))}
        if gigabytes:
            curves[GPU_MEMORY] = {1: gigabytes * 2**30}
        return outcome(arm, seed, curves=curves, megabytes=megabytes + seed)

    pair = [taking("a", n, 10.0, 50.0, [9, 9, 4 - n / 10, 3]) for n in THREE]
    pair += [taking("b", n, 20.0, 100.0, [5, 5, 5, 5]) for n in THREE]
    assert word("less_update_time", *pair) == "yes"
    assert word("less_memory", *pair) == "yes"
    assert word("falls", *pair, metric="length/think") == "yes"
    assert (
        verdict_on("less_memory", *[outcome(arm, n) for arm in "ab" for n in THREE]).figures == "nothing was measured"
    )
    on_gpus = [taking(arm, n, 1, mib, [1], g) for arm, mib, g in (("a", 90, 8), ("b", 80, 16)) for n in THREE]
    assert word("less_memory", *on_gpus) == "yes", "of the GPU, not of the host"


def test_a_tiny_wandering_change_is_no_fall():
    runs = [outcome("a", n, curves={"length/think": {1: 20.01, 2: 20.0 + n / 10}}) for n in THREE]
    assert word("falls", *runs, metric="length/think") == UNSETTLED


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


def test_a_page_of_equal_arms_has_a_yes_in_at_most_five_percent_of_cases():
    """400 pages with four kinds of claims in two environments, both arms alike."""
    random = np.random.default_rng(7)
    claims = ("higher", "collapses_later", "less_update_time", "falls")
    study = replace(
        find("figure-9"),
        environments=("sokoban", "frozen_lake"),
        findings=tuple(Finding(claim, claim, "a", "b", metric="length/think") for claim in claims),
    )

    def run(environment, arm, seed):
        at = int(random.integers(6, 30))
        curve = ([0.5] * at + [0.0] * (40 - at)) if random.uniform() < 0.7 else [0.5] * 40
        length = dict(enumerate(20 + random.standard_normal(40).cumsum(), start=1))
        curves = {"time/update": {1: float(random.lognormal(4, 0.1))}, "length/think": length}
        success = float(random.binomial(100, np.clip(random.normal(0.4, 0.05), 0, 1)) / 100)
        return outcome(arm, seed, success, curve, environment, curves=curves)

    wrong = 0
    for _ in range(400):
        runs = [run(e, arm, seed) for e in study.environments for arm in "ab" for seed in range(5)]
        wrong += any(verdict.word != UNSETTLED for verdict in verdicts(study, runs))
    assert wrong / 400 <= 0.083, "5 % and three standard errors of this simulation"


def test_the_page_prints_intervals_and_p_values():
    study = find("figure-9")
    runs = [outcome(arm, n, s + n / 50) for arm, s in (("starpo", 0.4), ("starpo_s", 0.5)) for n in THREE]
    table = page._findings_table(verdicts(study, runs))
    assert "| p | p, corrected |" in table
    assert "+10.0 points (" in table
