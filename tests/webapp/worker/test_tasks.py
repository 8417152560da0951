"""Celery task that starts a queued run, under its current and its former name."""

from __future__ import annotations

import socket

import pytest
from django.utils import timezone

from tests.webapp.worker.test_supervisor import act
from webapp.celery import app
from webapp.runs import actions
from webapp.runs.models import Run
from webapp.runs.run_files import RunFiles
from webapp.worker import supervisor, tasks

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("name", [actions.TRAIN_TASK, tasks.OLD_TRAIN_TASK])
def test_a_message_trains_the_waiting_run(name: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "trainer_command", lambda files, processes: act("train")(files))
    actions.do_record_heartbeat(socket.gethostname(), timezone.now(), queues=["training"])
    app.loader.import_default_modules()
    assert app.tasks[name].apply(args=(run.pk,)).get() == "finished"
    run.refresh_from_db()
    assert (run.state, run.iteration) == (Run.State.FINISHED, 4)
    assert RunFiles(run.folder).log.exists()


def test_the_former_task_name_accepts_messages_queued_before_the_upgrade() -> None:
    assert tasks.OLD_TRAIN_TASK == "webapp.runs.tasks.run_training"
