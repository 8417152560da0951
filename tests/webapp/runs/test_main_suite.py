"""The suite by which a run is judged."""

from __future__ import annotations

from webapp.runs.main_suite import main_suite
from webapp.runs.models import Evaluation


def test_the_suite_of_the_own_environment_comes_first() -> None:
    every = [Evaluation(suite=suite) for suite in ("Other", "Other", "Sokoban")]
    assert main_suite(every, "Sokoban") == "Sokoban"
    assert main_suite(every, "Bandit") == "Other"
    assert main_suite([], "Bandit") == ""
