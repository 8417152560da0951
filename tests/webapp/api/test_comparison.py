"""Comparison of runs and generalization matrices over the API."""

from __future__ import annotations

from tests.webapp import journal_builder, recorded_journal
from tests.webapp.api.api_clients import Callers, problem
from tests.webapp.conftest import People
from tests.webapp.explorer.test_compare import add_evaluations
from tests.webapp.page_requests import play
from tests.webapp.pages.runs.test_evaluation_views import matrix
from trainer.config.files import with_overrides
from trainer.config.run import RunConfig
from webapp.ingest.tailer import JournalTailer
from webapp.runs.launch.creation import do_create_run
from webapp.runs.models import Run


def other_run(people: People, run: Run) -> Run:
    config = with_overrides(RunConfig.model_validate(run.config), ["algorithm.clip_high=0.35"])
    return do_create_run(people.team, people.owner, config)


def test_runs_are_compared_by_settings_and_results(callers: Callers, people: People, run: Run) -> None:
    play(run, 1)
    other = other_run(people, run)
    response = callers.viewer.get(f"/api/compare?run={run.slug}&run={other.slug}")
    assert response.status_code == 200, response.content
    found = response.json()
    assert [(one["letter"], one["slug"]) for one in found["runs"]] == [("A", run.slug), ("B", other.slug)]
    assert [one["name"] for one in found["differences"]] == ["algorithm.clip_high"]
    assert found["differences"][0]["values"][1] == "0.35"
    assert found["url"].endswith(f"/compare?runs={run.slug},{other.slug}")
    assert found["runs"][1]["evaluation"] is None


def test_a_puzzle_is_compared_where_it_was_played(callers: Callers, people: People, run: Run) -> None:
    add_evaluations(run)
    other = other_run(people, run)
    path = f"/api/compare/puzzle?run={run.slug}&run={other.slug}"
    found = callers.viewer.get(f"{path}&suite=fixed&number=1000000")
    assert found.status_code == 200, found.content
    assert found.json()["number"] == found.json()["count"] - 1
    first, second = found.json()["attempts"]
    assert first["trajectory"]
    assert (second["run"], second["trajectory"], second["success"]) == (other.slug, None, None)
    assert callers.viewer.get(f"{path}&suite=Chess").status_code == 404


def test_a_comparison_names_what_cannot_be_compared(callers: Callers, people: People, run: Run) -> None:
    twice = callers.viewer.get(f"/api/compare?run={run.slug}&run={run.slug}")
    assert problem(twice)["fields"] == {"run": "names the same run twice"}
    missing = callers.viewer.get(f"/api/compare?run={run.slug}&run=nothing")
    assert missing.status_code == 404
    assert "There is no run nothing" in problem(missing)["message"]
    many = "&".join(f"run=r{number}" for number in range(11))
    assert callers.viewer.get(f"/api/compare?{many}").status_code == 422


def test_the_matrix_of_a_run_is_read_as_it_was_recorded(callers: Callers, run: Run) -> None:
    path = f"/api/runs/{run.slug}/generalization"
    none = callers.viewer.get(path)
    assert none.status_code == 404
    assert "holds no generalization matrix" in problem(none)["message"]
    config = RunConfig.model_validate(run.config)
    journal_builder.write(run.folder, recorded_journal.started(config), matrix())
    JournalTailer(run).drain()
    found = callers.viewer.get(path).json()
    assert found["suites"] == ["Sokoban", "Bandit"]
    assert [policy["trained_on"] for policy in found["policies"]] == [None, "Sokoban"]
    assert [cell["success"] for cell in found["cells"]] == [0.25, 0.5, 0.625]
