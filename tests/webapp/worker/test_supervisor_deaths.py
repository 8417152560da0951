"""Runs of killed supervisors, taken back by their worker."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from tests.patience import wait_until
from tests.webapp.worker.test_supervisor import fresh, outside_supervisor
from webapp.runs.actions import do_request
from webapp.runs.models import Run, Worker
from webapp.runs.run_files import RunFiles
from webapp.worker import parent_guard
from webapp.worker.supervisor_deaths import SupervisorDeaths

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def worker() -> Worker:
    now = timezone.now()
    return Worker.objects.create(name="worker@pool", last_seen_at=now, started_at=now)


@pytest.fixture
def supervisor() -> Iterator[subprocess.Popen[bytes]]:
    """A process of the pool, without a trainer."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


def hold(run: Run, supervisor: int, worker: Worker) -> None:
    expires = timezone.now() + timedelta(seconds=20)
    Run.objects.filter(pk=run.pk).update(
        state=Run.State.RUNNING, worker=worker, supervisor=supervisor, lease="of the dead", lease_expires_at=expires
    )


def test_the_run_of_a_killed_supervisor_waits_for_its_trainer_only(run: Run, worker: Worker) -> None:
    deaths = SupervisorDeaths(worker.name)
    victim = outside_supervisor(run, "long")
    wait_until(lambda: fresh(run).iteration >= 1)
    assert fresh(run).supervisor == victim.pid
    Run.objects.filter(pk=run.pk).update(worker=worker)
    assert deaths.do_take_back_runs() == 0
    trainer = RunFiles(run.folder).pid
    assert parent_guard.stale_trainer(trainer) is not None
    kill(victim)
    assert deaths.do_take_back_runs() == 1
    assert (fresh(run).state, fresh(run).lease) == ("queued", "")
    assert parent_guard.stale_trainer(trainer) is None
    assert deaths.do_take_back_runs() == 0


def test_a_stop_that_the_supervisor_did_not_see_is_obeyed(
    run: Run, worker: Worker, supervisor: subprocess.Popen[bytes]
) -> None:
    deaths = SupervisorDeaths(worker.name)
    deaths.do_take_back_runs()
    hold(run, supervisor.pid, worker)
    do_request(run, "stop")
    kill(supervisor)
    assert deaths.do_take_back_runs() == 1
    assert fresh(run).state == "stopped"


def test_runs_of_other_workers_and_of_processes_that_were_never_seen_are_left_alone(
    run: Run, worker: Worker, supervisor: subprocess.Popen[bytes]
) -> None:
    deaths = SupervisorDeaths("worker@elsewhere")
    deaths.do_take_back_runs()
    hold(run, supervisor.pid, worker)
    kill(supervisor)
    assert deaths.do_take_back_runs() == 0
    assert SupervisorDeaths(worker.name).do_take_back_runs() == 0
    assert fresh(run).state == "running"


def test_a_locked_row_is_taken_back_once_it_is_free(
    run: Run, worker: Worker, supervisor: subprocess.Popen[bytes]
) -> None:
    deaths = SupervisorDeaths(worker.name)
    deaths.do_take_back_runs()
    hold(run, supervisor.pid, worker)
    kill(supervisor)
    other = connection.copy()
    try:
        other.set_autocommit(False)
        other.cursor().execute("SELECT 1 FROM runs_run WHERE id = %s FOR UPDATE", [run.pk])
        assert deaths.do_take_back_runs() == 0
    finally:
        other.close()
    assert deaths.do_take_back_runs() == 1
