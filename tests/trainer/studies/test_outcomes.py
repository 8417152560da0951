"""When the success of a run counts as collapsed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.studies.outcomes import EvaluationResult, Outcome, collapse


def test_the_success_before_training_is_no_result_of_a_run_that_trains():
    before, after = (EvaluationResult(iteration, 64, success, 0, 1) for iteration, success in ((0, 0.4), (10, 0.6)))
    run = Outcome("bandit", "std", 0, evaluations={"Bandit": [before]}, suite="Bandit")
    assert run.final() is None
    run.evaluations["Bandit"].append(after)
    assert run.final() is after
    assert Outcome("bandit", "std", 0, evaluations={"Bandit": [before]}, suite="Bandit", trains=False).final() is before


@pytest.mark.parametrize(
    "success, at",
    [
        ([0.5] * 20, None),
        ([0.0] * 20, None),
        ([0.05] * 10 + [0.0] * 10, None),
        ([0.6] * 10 + [0.0] * 10, 13),
        ([0.6] * 10 + [0.0] * 10 + [0.6] * 10, None),
        ([0.6] * 10 + [0.0] * 3, None),
        ([], None),
    ],
)
def test_a_collapse_is_a_lasting_fall_below_half_of_the_best(success, at):
    assert collapse(success) == at


@given(st.lists(st.floats(0, 1), max_size=60), st.floats(0.5, 1))
def test_a_collapse_lies_within_the_run_and_only_after_a_success(success, factor):
    at = collapse(success)
    assert at is None or (5 < at + 4 <= len(success) and max(success) >= 0.1)


def simulated(course, groups, size, rng):
    """Success of each iteration: groups of equally hard attempts, puzzles of very different difficulty."""
    difficulty = [rng.beta(3 * rate, 3 * (1 - rate), groups) for rate in course]
    return [float(rng.binomial(size, rates).mean()) / size for rates in difficulty]


@pytest.mark.parametrize("rate", [0.08, 0.12, 0.2])
@pytest.mark.parametrize("iterations", [40, 200])
def test_flat_runs_are_rarely_called_collapsed(rate, iterations):
    rng = np.random.default_rng([int(100 * rate), iterations])
    runs = [collapse(simulated([rate] * iterations, 8, 16, rng)) for _ in range(150)]
    assert sum(at is not None for at in runs) / len(runs) < 0.06
    fallen = [rate] * (iterations // 2) + [rate / 8] * (iterations - iterations // 2)
    runs = [collapse(simulated(fallen, 8, 16, rng)) for _ in range(50)]
    assert sum(at is not None for at in runs) / len(runs) > 0.5


def test_the_first_iterations_alone_are_no_best():
    """One good iteration at the start is a fifth of a window, not a mean of its own."""
    assert collapse([0.45] + [0.06] * 39) is None
    assert collapse([0.9, 0.9] + [0.01] * 3 + [0.02] * 35) == 7, "two of five are"
