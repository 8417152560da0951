"""Which runs the pages of environments call best."""

from __future__ import annotations

from tests.webapp.conftest import People
from tests.webapp.studies.played import evaluate
from webapp.play.best_runs import best_of_each, best_runs
from webapp.runs.models import Evaluation, Run


def test_a_run_that_solves_nothing_is_not_the_best(run: Run, people: People) -> None:
    """Such as one in the Echo Trap, which once succeeded: its newest evaluation counts."""
    evaluate(run, 0.5, iteration=10)
    assert best_of_each(people.owner, [run.environment])[run.environment].success == 0.5
    evaluate(run, 0.0, iteration=20)
    assert best_of_each(people.owner, [run.environment]) == {}
    assert best_runs(people.owner, run.environment) == []
    Evaluation.objects.filter(run=run, iteration=20).update(success=0.1)
    assert [result.iteration for result in best_runs(people.owner, run.environment)] == [20]
