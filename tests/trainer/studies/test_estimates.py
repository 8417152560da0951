"""Estimates of differences: values calculated by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from trainer.studies.catalogue import find
from trainer.studies.estimates import area_under, differences, interquartile_mean
from trainer.studies.outcomes import EvaluationResult, Outcome


def outcome(arm, seed, *successes, prompts=100):
    played = [EvaluationResult(10 * at, prompts, success, 0, 1) for at, success in enumerate(successes)]
    return Outcome("sokoban", arm, seed, 10 * (len(played) - 1), {}, {"Sokoban": played}, "Sokoban")


def difference_of(first, second, prompts=100):
    study = replace(find("figure-9"), environments=("sokoban",))
    runs = [outcome("starpo_s", seed, *values, prompts=prompts) for seed, values in enumerate(first)]
    runs += [outcome("starpo", seed, *values, prompts=prompts) for seed, values in enumerate(second)]
    found = differences(study, runs)
    assert len(found) <= 1, "only claims on success are estimated"
    return found[0] if found else None


def test_the_middle_half_of_the_seeds_counts():
    assert interquartile_mean(np.array([0.0, 0.4, 0.6, 9.0])) == pytest.approx(0.5)
    assert interquartile_mean(np.array([0.1, 0.2, 0.6])) == pytest.approx(0.3), "three seeds are too few to leave out"


def test_values_are_those_of_a_hand_calculation():
    found = difference_of([(0.2, 0.4), (0.2, 0.5), (0.2, 0.9)], [(0.2, 0.3), (0.2, 0.5), (0.2, 0.1)])
    assert found.iqm.value == pytest.approx(0.3)
    assert found.iqm.low < 0.3 < found.iqm.high
    assert found.improvement.value == pytest.approx((2 + 2.5 + 3) / 9)
    assert found.paired.value == pytest.approx((0.1 + 0.0 + 0.8) / 3)
    assert found.area.value == pytest.approx(0.15)
    assert not found.equivalent


def test_equal_arms_are_shown_to_be_equal_by_many_puzzles_only():
    runs = [(0.2, 0.50), (0.2, 0.51), (0.2, 0.49)]
    assert difference_of(runs, runs, prompts=10_000).equivalent
    assert not difference_of(runs, runs, prompts=10).equivalent


def test_two_seeds_are_not_estimated():
    assert difference_of([(0.2, 0.5)] * 2, [(0.2, 0.5)] * 2) is None


def test_the_area_is_that_of_the_training_and_needs_two_evaluations():
    results = [EvaluationResult(at, 100, success, 0, 1) for at, success in ((-16, 0.0), (0, 0.2), (10, 0.6), (40, 0.6))]
    assert area_under(results) == pytest.approx((0.4 * 10 + 0.6 * 30) / 40)
    assert area_under(results[:2]) is None
