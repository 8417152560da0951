"""First sentence of a comparison: what it claims, and when it claims nothing."""

from __future__ import annotations

import pytest
from django.utils import timezone

from tests.webapp.conftest import People
from tests.webapp.page_requests import Visitors, who
from trainer.metrics.success_difference import wilson
from webapp.explorer.compare import sides
from webapp.explorer.comparison_headline import headline
from webapp.runs.models import Run

__all__ = ["who"]


def evaluated(run: Run, solved: int, iteration: int = 20, suite: str = "") -> Run:
    """The run with an evaluation of 100 puzzles."""
    rate = wilson(solved, 100)
    run.evaluations.create(
        iteration=iteration,
        suite=suite or run.environment,
        success=rate.value,
        success_low=rate.low,
        success_high=rate.high,
        mean_reward=0.0,
        prompts=100,
        samples=1,
        time=timezone.now(),
    )
    return run


@pytest.fixture
def other(people: People, run: Run) -> Run:
    return Run.objects.create(
        team=run.team, author=people.owner, title="B", config=run.config, environment=run.environment
    )


def test_the_better_run_is_named_with_the_interval_of_the_difference(run: Run, other: Run, who: Visitors) -> None:
    evaluated(run, 20), evaluated(other, 73)
    assert headline(sides([run, other])).startswith("B is better: +53.0 points for B, 95% interval +4")
    assert headline(sides([other, run])).startswith("A is better: −53.0 points for B")
    page = who.viewer.get(f"/compare?runs={run.slug},{other.slug}").content.decode()
    assert "B is better: +53.0 points for B" in page


def test_a_difference_that_may_be_luck_is_called_so(run: Run, other: Run) -> None:
    evaluated(run, 50), evaluated(other, 53)
    assert headline(sides([run, other])).startswith("No clear difference: +3.0 points for B")


def test_other_suites_missing_results_and_three_runs_have_no_headline(run: Run, other: Run) -> None:
    evaluated(run, 50)
    assert headline(sides([run, other])) == ""
    evaluated(other, 60, suite="LargeSokoban")
    assert headline(sides([run, other])) == ""
    assert headline(sides([run, run, other])) == ""


def test_an_evaluation_before_training_is_not_compared_with_one_after(run: Run, other: Run) -> None:
    evaluated(run, 50), evaluated(other, 10, iteration=0)
    assert headline(sides([run, other])) == ""


def test_success_in_different_environments_is_not_compared(run: Run, other: Run) -> None:
    other.environment = "Bandit"
    evaluated(run, 50), evaluated(other, 60)
    assert headline(sides([run, other])).startswith("Different environments (")
