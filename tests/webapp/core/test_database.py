"""The database's clock, its timeouts, and rows that another process locks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.db import OperationalError, ProgrammingError, connection, transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from tests.patience import SECONDS, wait_until
from webapp.core import database
from webapp.core.database import RowLocked, clock_offset, database_now, lock_wait
from webapp.core.env import TIMEOUTS, WEB_TIMEOUTS, set_timeouts
from webapp.runs import actions
from webapp.runs.models import Run, Worker
from webapp.worker import heartbeat
from webapp.worker.heartbeat import Heartbeat
from webapp.worker.run_lease import RunLease

pytestmark = pytest.mark.django_db(transaction=True)


def address_of_test_database() -> str:
    return settings.DATABASE_URL.rsplit("/", 1)[0] + "/" + str(connection.settings_dict["NAME"])


@contextmanager
def frozen_transaction(run: Run) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """A supervisor that is paused between two statements: its transaction holds the run's row."""
    with psycopg.connect(address_of_test_database()) as other:
        other.execute("SELECT 1 FROM runs_run WHERE id = %s FOR UPDATE", [run.pk])
        yield other
        if not other.closed:
            other.rollback()


def test_clock_of_the_database_and_its_distance() -> None:
    assert abs(database_now() - timezone.now()) < timedelta(seconds=SECONDS)
    assert abs(clock_offset()) < SECONDS


def fast_clock(monkeypatch: pytest.MonkeyPatch, ahead: timedelta) -> None:
    """Set this machine's clock ahead, for everything that reads it."""

    class Clock(database.datetime):
        @classmethod
        def now(cls, tz: object = None) -> database.datetime:  # type: ignore[override]
            return real(tz) + ahead  # type: ignore[arg-type]

    real = database.datetime.now
    monkeypatch.setattr(database, "datetime", Clock)
    now = timezone.now
    monkeypatch.setattr(timezone, "now", lambda: now() + ahead)


def test_a_worker_with_a_fast_clock_takes_no_run_from_others(
    run: Run, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = database_now() + actions.LEASE * 30
    Run.objects.filter(pk=run.pk).update(state=Run.State.RUNNING, lease="of another", lease_expires_at=lease)
    fast_clock(monkeypatch, actions.LEASE * 60)
    monkeypatch.setattr(heartbeat, "HEARTBEAT_INTERVAL", 0.05)
    monkeypatch.setattr(heartbeat, "REAP_INTERVAL", 0.05)
    worker = Heartbeat("fast@here", ["training"], 1)
    rounds: list[int] = []
    reap = actions.do_reap
    monkeypatch.setattr(actions, "do_reap", lambda now: rounds.append(reap(now)))
    worker.start()
    wait_until(lambda: len(rounds) >= 3)
    worker.stop()
    assert Run.objects.get(pk=run.pk).lease == "of another"
    seen = Worker.objects.get(name="fast@here")
    assert seen.clock_offset == pytest.approx(1200, abs=SECONDS)
    client.force_login(run.author)
    page = client.get(reverse("workers")).content.decode()
    assert "ahead of the database" in page


def test_a_locked_run_does_not_block_the_reaper(run: Run, people: object) -> None:
    gone = database_now() - timedelta(seconds=1)
    other = Run.objects.create(team=run.team, title="Other", config=run.config, environment="Sokoban", iterations=4)
    Run.objects.filter(pk__in=[run.pk, other.pk]).update(
        state=Run.State.RUNNING, lease="of a dead one", lease_expires_at=gone
    )
    with frozen_transaction(run):
        actions.do_reap(database_now())
        assert Run.objects.get(pk=run.pk).state == Run.State.RUNNING
        assert Run.objects.get(pk=other.pk).state == Run.State.QUEUED
    actions.do_reap(database_now())
    assert Run.objects.get(pk=run.pk).state == Run.State.QUEUED


def test_a_request_for_a_locked_run_is_refused_with_advice(
    run: Run, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions, "REQUEST_LOCK_WAIT", 0.1)
    Run.objects.filter(pk=run.pk).update(state=Run.State.RUNNING, lease="x", lease_expires_at=database_now())
    client.force_login(run.author)
    with frozen_transaction(run):
        answer = client.post(reverse("run-request", args=[run.slug, "stop"]), follow=True)
    assert "does not answer at the moment" in answer.content.decode()
    assert Run.objects.get(pk=run.pk).requested == ""


def test_lock_wait_ends_and_other_errors_pass_through(run: Run) -> None:
    with frozen_transaction(run), pytest.raises(RowLocked), lock_wait(0.05):
        Run.objects.filter(pk=run.pk).update(title="Other")
    with pytest.raises(OperationalError), lock_wait(0.05):
        raise OperationalError("the server closed the connection")


@pytest.mark.parametrize(("web", "timeouts"), [(False, TIMEOUTS), (True, WEB_TIMEOUTS)])
def test_timeouts_are_set_on_every_connection(web: bool, timeouts: dict[str, str]) -> None:
    options: dict[str, Any] = {}
    set_timeouts({"OPTIONS": options}, web=web)
    with psycopg.connect(address_of_test_database(), **options) as other:
        for name, value in timeouts.items():
            row = other.execute("SELECT current_setting(%s)", [name]).fetchone()
            assert row == (value,)
    assert ({"connect_timeout", "tcp_user_timeout"} <= options.keys()) is not web
    own = {"OPTIONS": {"options": "-c search_path=own"}}
    set_timeouts(own, web=web)
    assert own["OPTIONS"]["options"] == "-c search_path=own"


def test_the_address_of_the_database_may_set_other_timeouts_of_connections() -> None:
    own: dict[str, Any] = {"OPTIONS": {"connect_timeout": "3"}}
    set_timeouts(own, web=False)
    assert own["OPTIONS"]["connect_timeout"] == "3"
    assert own["OPTIONS"]["tcp_user_timeout"] == 30_000


def test_the_database_ends_a_frozen_transaction(run: Run) -> None:
    with frozen_transaction(run) as other:
        other.execute("SET idle_in_transaction_session_timeout = '100ms'")
        Run.objects.filter(pk=run.pk).update(title="It goes on.")
        with pytest.raises(psycopg.errors.IdleInTransactionSessionTimeout):
            other.execute("SELECT 1")
        other.close()


def test_a_launch_does_not_wait_for_redis(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    answered, sent = threading.Event(), threading.Event()

    def hang(*arguments: object, **options: object) -> None:
        sent.set()
        answered.wait(SECONDS)

    monkeypatch.setattr("webapp.runs.actions.current_app.send_task", hang)
    actions.wake(run.pk)
    assert sent.wait(SECONDS)
    assert not answered.is_set(), "the caller is here already"
    answered.set()


def test_a_transaction_ended_by_the_database_is_repeated(run: Run) -> None:
    lease = RunLease(run, refresh_interval=1, renew_interval=1, retry_interval=0.01)
    attempts = []

    def freeze_once() -> int:
        attempts.append(None)
        with transaction.atomic(), connection.cursor() as cursor:
            if len(attempts) == 1:
                cursor.execute("SET LOCAL idle_in_transaction_session_timeout = '50ms'")
                cursor.execute("SELECT pg_backend_pid()")
                backend = cursor.fetchone()
                with psycopg.connect(address_of_test_database(), autocommit=True) as other:
                    alive = "SELECT 1 FROM pg_stat_activity WHERE pid = %s"
                    wait_until(lambda: other.execute(alive, backend).fetchone() is None)
            return Run.objects.filter(pk=run.pk).update(title="Repeated")

    assert lease.persist(freeze_once) == 1
    assert len(attempts) == 2
    with pytest.raises(ProgrammingError):
        lease.persist(lambda: Run.objects.raw("SELECT nothing")[0])
