"""A sick run: what its pages, lists, log, API and alerts say, and when they stop."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from tests.webapp import journal_builder
from tests.webapp.fragments import contains
from tests.webapp.javascript import evaluate
from tests.webapp.page_requests import Visitors, who
from trainer.journal.events import Alarm, Event, Fault, Faults
from webapp.ingest.tailer import JournalTailer
from webapp.live.snapshot import snapshot
from webapp.notifications.models import RunEvent
from webapp.runs.condition import Condition, get_condition
from webapp.runs.faults import list_faults
from webapp.runs.models import LogLine, Run

__all__ = ["who"]

TIMEOUTS = Fault(cause="environment_timeouts", since=1, text="8 attempts (6%) timed out.")
SLOW = Fault(cause="slow_rollout", since=2, text="90 tokens/s, after 900 before.")
NEWER = Fault(cause="cosmic_rays", since=2, text="A bit flipped.")


def tell(run: Run, *events: Event) -> Run:
    journal_builder.write(run.folder, *events)
    JournalTailer(run).drain()
    return Run.objects.get(pk=run.pk)


@pytest.fixture
def sick(run: Run) -> Run:
    first = Faults(iteration=1, present=[TIMEOUTS])
    return tell(
        run,
        journal_builder.started(),
        *journal_builder.iteration(1),
        first,
        *journal_builder.iteration(2),
        Faults(iteration=2, present=[TIMEOUTS, SLOW, NEWER]),
    )


def test_consequences_and_causes_of_a_newer_trainer_are_listed(sick: Run) -> None:
    timeouts, newer = list_faults(sick.faults)
    assert (timeouts.fault, [one.fault for one in timeouts.consequences]) == (TIMEOUTS, [SLOW])
    assert timeouts.attempts == "split=train&iteration_min=1&training_use=timeout"
    assert (newer.fault, newer.cause.title, newer.attempts) == (NEWER, "Another fault", "")
    assert snapshot(sick)["faults"] == sick.faults


def test_the_worst_trouble_is_the_condition() -> None:
    faults = [SLOW.model_dump(), TIMEOUTS.model_dump()]
    watch, trapped = ({"state": state, "iteration": 7} for state in ("watch", "trapped"))
    assert get_condition(None, faults) == Condition("sick", 1)
    assert get_condition(watch, faults) == Condition("sick", 1)
    assert get_condition(trapped, faults) == Condition("trapped", 7)
    assert get_condition(watch, []) == Condition("watch", 7)
    healthy = {"state": "healthy", "iteration": 9}
    assert get_condition(healthy, []) is None
    for alarm in (None, healthy, watch, trapped):
        for present in ([], faults):
            condition = get_condition(alarm, present)
            data = {"alarm": alarm, "faults": present}
            assert evaluate("live/run_header.js", "conditionOf(data)", data) == (condition and asdict(condition))


def test_the_pages_say_what_is_wrong_and_what_helps(sick: Run, who: Visitors) -> None:
    page = who.viewer.get(f"/runs/{sick.slug}/").content.decode()
    assert contains(page, "Sick since iteration 1")
    assert contains(page, "8 attempts (6%) timed out. They look like a slow or a bad policy.")
    assert contains(page, "1 probable consequence")
    assert f"/runs/{sick.slug}/trajectories?split=train&amp;iteration_min=1&amp;training_use=timeout" in page
    assert "<title>⚠ Sick · " in page
    assert contains(who.viewer.get("/").content.decode(), 'title="Faults: sick since iteration 1">Sick')
    answer = who.viewer.get(f"/api/runs/{sick.slug}").json()
    assert answer["condition"] == {"state": "sick", "since": 1}


def test_the_panel_follows_the_faults(sick: Run, who: Visitors) -> None:
    assert contains(who.viewer.get(f"/runs/{sick.slug}/faults").content.decode(), "Environments time out")
    well = tell(sick, Faults(iteration=3, present=[]))
    assert who.viewer.get(f"/runs/{sick.slug}/faults").content.decode().strip() == ""
    assert (well.condition, well.faults) == (None, [])
    messages = LogLine.objects.filter(run=sick, message__contains="Iteration").values_list("level", "message")
    assert ("warning", "Iteration 1: the run is sick. Environments time out.") in messages
    assert ("info", "Iteration 3: the faults are gone.") in messages


def test_another_attempt_begins_without_the_faults_of_the_last(sick: Run) -> None:
    assert tell(sick, journal_builder.started(attempt=2, from_iteration=1)).faults == []


def test_each_new_cause_is_an_event_once(sick: Run) -> None:
    events = RunEvent.objects.filter(run=sick, kind="sick").order_by("pk")
    assert [event.where for event in events] == ["at iteration 1", "at iteration 2"]
    assert events[0].message == "Environments time out. 8 attempts (6%) timed out."
    tell(sick, Faults(iteration=5, present=[SLOW]), Faults(iteration=6, present=[]))
    assert RunEvent.objects.filter(run=sick, kind="sick").count() == 2


def test_a_collapse_is_not_hidden_by_its_faults(sick: Run, who: Visitors) -> None:
    tell(sick, Alarm(iteration=3, state="trapped", message="Collapse."))
    page = who.viewer.get(f"/runs/{sick.slug}/").content.decode()
    assert contains(page, "Trapped since iteration 3")
    assert contains(page, "Environments time out")
