"""Other kinds of runs launched from the form: evaluation of a policy, and the SFT baseline."""

from __future__ import annotations

import html
import json
from pathlib import Path

import pytest
from pytest_django import Settings

from tests.trainer import tiny
from tests.webapp.fragments import contains
from tests.webapp.page_requests import Visitors, who
from tests.webapp.pages.runs.test_launch_views import fields_of
from trainer.config.run import RunConfig
from trainer.loops import run_factory
from webapp.ingest.tailer import JournalTailer
from webapp.runs import summaries
from webapp.runs.launch import estimates
from webapp.runs.models import Run

__all__ = ["who"]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, settings: Settings) -> None:
    settings.ECHOSCOPE_DATA_DIR = tmp_path / "var"
    settings.ECHOSCOPE_MODEL_FOLDERS = [str(tmp_path / "model")]


def launched(who: Visitors, **changes: str) -> Run:
    fields = fields_of(who.owner.get("/runs/new?preset=sokoban-pocket").content.decode())
    response = who.owner.post("/runs/new", fields | changes)
    assert response.status_code == 302, response.content.decode()
    return Run.objects.get()


def test_an_evaluation_is_launched_played_and_shown(who: Visitors, tmp_path: Path) -> None:
    model = tiny.save_pocket(tmp_path / "model")
    form = {
        "kind": "evaluate",
        "policy.model": str(model),
        "policy.threads": "1",
        "evaluation.prompts": "2",
        "evaluation.samples_per_prompt": "2",
        "evaluation.suites": "Bandit, FrozenLake:size=5",
        "rollout.max_response_tokens": "8",
    }
    run = launched(who, **form)
    assert (run.iterations, run.state) == (0, Run.State.QUEUED)
    config = RunConfig.model_validate(run.config)
    assert config.evaluation.suites == ["Bandit", "FrozenLake:size=5"]
    assert summaries.algorithm_text(run.config) == "Evaluation · model"
    assert summaries.length_text(config) == "3 suites of 2 prompts × 2 samples"

    Run.objects.filter(pk=run.pk).update(state=Run.State.STARTING)
    run_factory.run(config, run.folder, tmp_path / "cache")
    run.refresh_from_db()
    JournalTailer(run).drain()
    run.refresh_from_db()
    assert (run.iterations, run.end_reason) == (0, "completed")
    page = html.unescape(who.owner.get(f"/runs/{run.slug}/evaluation").content.decode())
    assert all(name in page for name in ("Sokoban", "Bandit", "FrozenLake:size=5", "pass@k"))
    for tab in ("", "curves", "trajectories", "log"):
        assert who.owner.get(f"/runs/{run.slug}/{tab}").status_code == 200
    run.state = Run.State.FINISHED
    assert summaries.rest_text(run) == "All suites evaluated"


def test_the_baseline_is_launched_with_its_own_settings(who: Visitors) -> None:
    run = launched(who, **{"kind": "sft", "lora.rank": "64", "lora.alpha": "32"})
    config = RunConfig.model_validate(run.config)
    assert (config.lora.rank, config.lora.alpha) == (64, 32)
    assert summaries.algorithm_text(run.config) == "SFT · pocket policy"
    assert estimates.size_sentence(config) == "80 steps of 128 out of 1,000 demonstrations"


def test_an_evaluation_without_suites_is_reported_at_its_field(who: Visitors) -> None:
    fields = fields_of(who.owner.get("/runs/new").content.decode()) | {"kind": "evaluate", "evaluation.prompts": "0"}
    page = html.unescape(who.owner.post("/runs/new/check", fields).content.decode())
    assert contains(page, '"f-evaluation-prompts": "a run of kind evaluate needs')


def test_an_unknown_suite_is_reported_at_its_field(who: Visitors) -> None:
    fields = fields_of(who.owner.get("/runs/new").content.decode()) | {"evaluation.suites": "Chess"}
    page = html.unescape(who.owner.post("/runs/new/check", fields).content.decode())
    state = json.loads(page[page.index('{"errors"') : page.index("</script>")])
    assert state["errors"]["f-evaluation-suites"].startswith("unknown environment 'Chess' in 'Chess'")
