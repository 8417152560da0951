"""Pages of a training run that begins with a warm-up on demonstrations."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pytest_django import Settings

from tests.webapp import journal_builder
from tests.webapp.explorer.test_run_result import evaluated
from tests.webapp.page_requests import Visitors, who
from trainer.config.run import RunConfig
from trainer.journal import events
from webapp.ingest.tailer import JournalTailer
from webapp.pages.runs.live_layout import intro
from webapp.runs.models import LogLine, MetricPoint, Run
from webapp.runs.summaries import rest_text

__all__ = ["who"]

ZERO_SHOT, WARMED_UP, TRAINED = "------------", "+++---------", "++++++++++--"


@pytest.fixture
def warmed_up(run: Run, tmp_path: Path, settings: Settings) -> Run:
    """A run of the tests with a warm-up of three steps and its folder."""
    settings.ECHOSCOPE_DATA_DIR = tmp_path
    data = RunConfig.model_validate(run.config).model_dump(mode="json")
    data["policy"]["model"], data["sft"]["warmup_steps"] = "org/model", 3
    run.config = data
    run.state = Run.State.STARTING
    run.save()
    return run


def words(page: str) -> str:
    """The text of a page, with single spaces."""
    return " ".join(re.sub(r"<[^>]+>", " ", page).replace(" :", ":").split())


def step(iteration: int) -> events.Metrics:
    return events.Metrics(iteration=iteration, tokens=9, seconds=4.0 + iteration, values={"sft/loss": 0.5 - iteration})


def started(attempt: int, from_iteration: int) -> events.RunStarted:
    first = journal_builder.started(attempt=attempt)
    return first.model_copy(update={"from_iteration": from_iteration, "evaluated_iteration": min(from_iteration, -3)})


def ingest(run: Run, *written: events.Event) -> None:
    journal_builder.write(run.folder, *written)
    JournalTailer(run).drain()
    run.refresh_from_db()


def test_pages_tell_imitation_from_reinforcement(warmed_up: Run, who: Visitors) -> None:
    run = warmed_up
    ingest(
        run,
        started(1, -3).model_copy(update={"evaluated_iteration": -4}),
        *evaluated(-3, ZERO_SHOT),
        step(-2),
        step(-1),
        step(0),
        *evaluated(0, WARMED_UP),
        *journal_builder.iteration(1),
        *evaluated(1, TRAINED),
        events.RunFinished(reason="completed", iteration=1, message="All 1 iterations are done.", summary={}),
    )
    Run.objects.filter(pk=run.pk).update(state=Run.State.FINISHED, iterations=1)
    address = f"/runs/{run.slug}/"
    page, evaluation = (words(who.owner.get(address + tab).content.decode()) for tab in ("", "evaluation"))
    for text in (page, evaluation):
        assert "0.0% → to 25.0% → to 83.3% +83.3 points" in text
        assert "0.0% → 25.0% by imitation (3 steps on demonstrations): " in text
        assert "25.0% → 83.3% by reinforcement: a gain beyond chance" in text
    for when in ("before the warm-up", "after the warm-up", "after iteration 1"):
        assert when in evaluation
    curves = who.owner.get(f"{address}curves").content.decode()
    marks = json.loads(curves.split('<script id="marks" type="application/json">')[1].split("</script>")[0])
    assert {"state": "warmup", "from": -3, "to": 0} in marks["bands"]
    assert re.search(r"&quot;first&quot;: ?-2", curves)
    log = list(LogLine.objects.filter(run=run).order_by("seq").values_list("message", flat=True))
    assert "After step 1 of the warm-up: imitation loss 2.50." in log
    assert any(line.startswith("Evaluation of Sokoban before the warm-up: 0.0% of 12 puzzles") for line in log)


def test_another_attempt_repeats_the_warm_up_from_where_it_continues(warmed_up: Run, who: Visitors) -> None:
    run = warmed_up
    ingest(run, started(1, -3), step(-2), step(-1))
    assert run.iteration == -1
    Run.objects.filter(pk=run.pk).update(state=Run.State.PAUSED)
    run.refresh_from_db()
    assert rest_text(run) == "Paused after part of the warm-up; resume continues with its next step"
    assert "Paused after part of the warm-up" in words(who.owner.get(f"/runs/{run.slug}/").content.decode())
    assert who.owner.get("/").status_code == 200
    ingest(run, started(2, -2), step(-1), step(0))
    points = MetricPoint.objects.filter(run=run).order_by("iteration")
    assert list(points.values_list("iteration", flat=True)) == [-2, -1, 0]
    assert run.iteration == 0


def test_the_banner_of_an_sft_run_does_not_speak_of_groups(run: Run) -> None:
    run.iterations, run.config = 9, {"kind": "sft", "rollout": {"group_size": 16}}
    assert intro(run).endswith(
        "from demonstrations. Each square is one attempt of an evaluation. Click any square to watch it think."
    )
