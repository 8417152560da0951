"""Celery task that starts a queued run."""

from __future__ import annotations

import socket
from datetime import timedelta

import pytest
from celery.utils.imports import symbol_by_name
from django.utils import timezone

from tests.webapp.worker.test_supervisor import act
from webapp.celery import app
from webapp.core.database import database_now
from webapp.runs import actions
from webapp.runs.models import Run
from webapp.runs.run_files import RunFiles
from webapp.worker import heartbeat, supervisor

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_message_trains_the_waiting_run(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "trainer_command", lambda files, processes: act("train")(files))
    actions.do_record_heartbeat(socket.gethostname(), timezone.now(), queues=["training"])
    app.loader.import_default_modules()
    assert app.tasks[actions.TRAIN_TASK].apply(args=(run.pk,)).get() == "finished"
    run.refresh_from_db()
    assert (run.state, run.iteration) == (Run.State.FINISHED, 4)
    assert RunFiles(run.folder).log.exists()


def test_a_worker_whose_clock_is_ahead_wakes_others_as_usual(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    ahead = timezone.now() + timedelta(hours=1)
    monkeypatch.setattr(timezone, "now", lambda: ahead)
    actions.do_reap(database_now())
    woken = Run.objects.get(pk=run.pk).woken_at
    assert woken is not None
    assert abs(woken - database_now()) < timedelta(minutes=5)


@pytest.mark.parametrize(
    "age, clock_error, expired", [(-60, 0, False), (60, 0, True), (3540, 3600, False), (3660, 3600, True)]
)
def test_a_message_expires_by_the_clock_of_the_database(
    age: int, clock_error: float, expired: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.loader.import_default_modules()
    request_class = symbol_by_name(app.tasks[actions.TRAIN_TASK].Request)
    monkeypatch.setattr(heartbeat, "clock_error", lambda: clock_error)
    request = request_class.__new__(request_class)
    monkeypatch.setattr(request_class, "expires", timezone.now() - timedelta(seconds=age))
    assert request.maybe_expire() is expired
