"""Recording of events: together with what happened, and once."""

from __future__ import annotations

import pytest
from django.db import OperationalError

from tests.webapp import journal_builder
from tests.webapp.conftest import People
from tests.webapp.evaluation_journal import evaluations
from trainer.journal import events as journal
from webapp.ingest.rebuild import do_rebuild
from webapp.ingest.tailer import JournalTailer
from webapp.notifications import run_events
from webapp.notifications.dispatch import dispatch
from webapp.notifications.inbox import entries
from webapp.notifications.models import Notification, RunEvent
from webapp.runs.models import Alarm, Run

pytestmark = pytest.mark.django_db
ALARM = journal.Alarm(iteration=2, state="watch", message="It is.", evidence={})


def test_an_alarm_is_stored_only_together_with_its_event(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    journal_builder.write(run.folder, journal_builder.started(), ALARM)

    def fail(events: object) -> None:
        raise OperationalError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(run_events, "_record", fail)
        with pytest.raises(OperationalError):
            JournalTailer(run).drain()
    assert not Alarm.objects.exists()
    JournalTailer(Run.objects.get(pk=run.pk)).drain()
    assert RunEvent.objects.get().key == Alarm.objects.get().event_key


def test_a_journal_that_is_read_again_records_nothing_new(run: Run) -> None:
    journal_builder.write(run.folder, journal_builder.started(), ALARM)
    JournalTailer(run).drain()
    RunEvent.objects.update(message="as first recorded")
    do_rebuild(Run.objects.get(pk=run.pk))
    assert Alarm.objects.get().message == "It is."
    assert RunEvent.objects.get().message == "as first recorded"


def test_first_successes_are_reported_once_and_then_only_of_a_harder_puzzle(run: Run, people: People) -> None:
    signs = {0: "-----", 2: "+----", 4: "++---", 6: "+++--", 8: "++++-"}
    journal_builder.write(run.folder, journal_builder.started(), *evaluations(signs, [5, 3, 8, 8, 9]))
    JournalTailer(run).drain()
    dispatch()
    reported = entries(people.owner, limit=9)
    assert [entry.title for entry in reported] == ["It got it!"] * 2
    assert reported[0].message == "First success on puzzle 3, after iteration 6 (8 moves, 3 failed attempts before)."
    paths = Notification.objects.order_by("pk").values_list("path", flat=True)
    assert list(paths) == [f"/runs/{run.slug}/first-successes?iteration={iteration}" for iteration in (2, 6)]
