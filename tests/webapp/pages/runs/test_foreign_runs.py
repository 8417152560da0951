"""Pages of runs of other trainers show what was sent, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import call_command
from pytest_django import Settings

import echoscope
from tests.webapp.api.api_clients import Callers, callers, problem
from tests.webapp.conftest import People
from tests.webapp.page_requests import Visitors, who
from trainer.config.run import RunConfig
from webapp.explorer.compare import differences
from webapp.explorer.run_result import of_run
from webapp.live.snapshot import heading
from webapp.runs.models import Run
from webapp.trajectories.models import Trajectory

__all__ = ["callers", "who"]

INVENTED = ("Sokoban", "pocket", "StarPO", "python -m trainer", "8 puzzles × 16", "temperature")
TABS = ("", "trajectories", "curves", "evaluation", "configuration", "log")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, settings: Settings) -> None:
    settings.ECHOSCOPE_DATA_DIR = tmp_path / "data"


def recorded(folder: Path, people: People, *, finish: bool = True, config: Any = None) -> Run:
    """A run of another trainer: one iteration of a group of four, of which one succeeds."""
    run = echoscope.init("GRPO on Wordle", folder=folder, config={"lr": 1e-6, "model": {"name": "m-7b"}})
    for number, attempt in enumerate(
        run.group(4, prompt="Guess.", iteration=3, environment="Wordle", source="x.jsonl")
    ):
        attempt.turn(state="_____", response="CRANE", reward=float(number == 0), tool_calls=[{"name": "look"}])
        attempt.finish(success=number == 0, judge=7)
    run.log({"my/loss": 0.5}, iteration=3)
    if finish:
        run.finish()
    if config is not None:
        journal = folder / "journal.jsonl"
        first, *rest = journal.read_text().splitlines(keepends=True)
        journal.write_text(json.dumps(json.loads(first) | {"config": config}) + "\n" + "".join(rest))
    call_command("import_journal", str(folder), "--team", people.team.slug, "--user", "ada")
    return Run.objects.get(title="GRPO on Wordle")


@pytest.mark.parametrize("tab", TABS)
@pytest.mark.parametrize("finish", [True, False])
def test_no_tab_shows_anything_that_was_not_sent(
    tab: str, finish: bool, people: People, who: Visitors, tmp_path: Path
) -> None:
    run = recorded(tmp_path / "run", people, finish=finish)
    response = who.owner.get(f"/runs/{run.slug}/{tab}")
    page = response.content.decode()
    assert response.status_code == 200
    assert [words for words in INVENTED if words in page] == []
    assert "?clone=" not in page
    assert "?from=" not in page


def test_the_wall_has_the_shape_of_what_was_played(people: People, who: Visitors, tmp_path: Path) -> None:
    run = recorded(tmp_path / "run", people)
    page = who.owner.get(f"/runs/{run.slug}/").content.decode()
    assert "1 puzzles × 4" in page
    assert "kept" not in page.partition("data-wall-note")[2].partition("</p>")[0]
    described = heading(run)["run"]
    assert (described["groups"], described["group_size"]) == (1, 4)
    result = of_run(Run.objects.get(pk=run.pk))
    assert (run.environment, result and result.trajectories) == ("Wordle", 4)
    assert "Finished after iteration 3" in page


@pytest.mark.parametrize("config", [None, {"trainer": "trl", "lr": 1e-6}, {}])
def test_the_configuration_is_what_was_sent(config: Any, people: People, who: Visitors, tmp_path: Path) -> None:
    run = recorded(tmp_path / "run", people, config=config)
    sent = {"lr": 1e-6, "model": {"name": "m-7b"}} if config is None else config
    assert run.recorded == sent
    page = who.owner.get(f"/runs/{run.slug}/configuration").content.decode()
    assert ("as it sent them" if sent else "sent no settings") in page
    download = who.owner.get(f"/runs/{run.slug}/configuration?download=1").content.decode()
    assert (yaml.safe_load(download) or {}) == sent


def test_clones_and_studies_of_it_are_refused_with_the_reason(
    people: People, who: Visitors, callers: Callers, tmp_path: Path
) -> None:
    run = recorded(tmp_path / "run", people)
    response = who.owner.get(f"/runs/new?clone={run.slug}")
    assert response.status_code == 409
    assert "was trained by another trainer" in response.content.decode()
    answer = callers.owner.post(f"/api/runs/{run.slug}/clone", {"overrides": {"seed": 3}})
    assert (answer.status_code, "another trainer" in problem(answer)["message"]) == (409, True)
    assert who.owner.get(f"/studies/new?from={run.slug}").status_code == 200
    trajectory = Trajectory.objects.filter(run=run).first()
    assert trajectory is not None
    assert "recorded no tokens" in who.owner.get(f"/t/{trajectory.slug}/tokens.json").content.decode()
    for page in ("", ".json", "/prompt", "/embed", "/picture.png", "/export/txt", "/film.webp"):
        assert who.owner.get(f"/t/{trajectory.slug}{page}").status_code == 200, page


def test_extra_fields_are_kept_and_exported(people: People, who: Visitors, tmp_path: Path) -> None:
    run = recorded(tmp_path / "run", people)
    lines = b"".join(who.owner.get(f"/runs/{run.slug}/export/jsonl").streaming_content).splitlines()  # type: ignore[arg-type]
    document = json.loads(lines[0])
    assert document["turns"][0]["extra"] == {"tool_calls": [{"name": "look"}]}
    assert (document["extra"], document["group_extra"]) == ({"judge": 7}, {"source": "x.jsonl"})


def test_runs_of_other_trainers_are_compared_by_what_they_recorded(people: People, run: Run, tmp_path: Path) -> None:
    foreign = recorded(tmp_path / "run", people)
    (group,) = differences([foreign, run])
    values = {difference.name: difference.values for difference in group.differences}
    assert values["model.name"] == ["m-7b", ""]
    assert values["algorithm.estimator"] == ["", RunConfig().algorithm.estimator]
    assert differences([foreign, foreign]) == []


def test_settings_of_our_own_trainer_stay_settings(people: People, tmp_path: Path) -> None:
    run = recorded(tmp_path / "run", people, config=RunConfig().model_dump(mode="json") | {"of_a_later_version": 1})
    assert run.recorded is None
    assert run.config["rollout"]["groups"] == 8
