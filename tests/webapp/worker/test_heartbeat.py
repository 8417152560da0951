"""Heartbeat thread of a worker, which also frees runs of silent workers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from tests.patience import SECONDS, wait_until
from webapp.runs.models import Run, Worker
from webapp.worker import heartbeat, liveness
from webapp.worker.hardware import describe_device, describe_gpus
from webapp.worker.heartbeat import Heartbeat

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def beating(monkeypatch: pytest.MonkeyPatch) -> Iterator[Heartbeat]:
    monkeypatch.setattr(heartbeat, "HEARTBEAT_INTERVAL", 0.05)
    monkeypatch.setattr(heartbeat, "REAP_INTERVAL", 0.05)
    thread = Heartbeat("worker@here", ["training"], 1)
    thread.start()
    yield thread
    thread.stop()
    for part in (thread._thread, thread._reaper):  # stop() waits for an interval, which is short here
        part.join(SECONDS)


def test_a_worker_renews_its_heartbeat(beating: Heartbeat) -> None:
    wait_until(lambda: Worker.objects.filter(name="worker@here").exists())
    first = Worker.objects.get()
    assert (first.queues, first.slots, first.device) == (["training"], 1, describe_device(describe_gpus()))
    wait_until(lambda: Worker.objects.get().last_seen_at > first.last_seen_at)


def test_a_worker_with_another_data_folder_is_logged_once(beating: Heartbeat, caplog: pytest.LogCaptureFixture) -> None:
    wait_until(lambda: Worker.objects.filter(name="worker@here").exclude(data_folder="").exists())
    own = Worker.objects.get().data_folder
    now = timezone.now()
    for name, folder, seen in (("twin", own, now), ("lost", "other", now - timedelta(days=1)), ("apart", "other", now)):
        times = {"started_at": seen, "last_seen_at": seen}
        Worker.objects.create(name=f"worker@{name}", host=name, data_folder=folder, **times)
    wait_until(lambda: "worker@apart (apart) has another data folder" in caplog.text)
    beats = Worker.objects.get(name="worker@here").last_seen_at
    wait_until(lambda: Worker.objects.get(name="worker@here").last_seen_at > beats + timedelta(seconds=0.2))
    assert caplog.text.count("another data folder") == 1
    assert "worker@lost" not in caplog.text
    assert "worker@twin" not in caplog.text


def test_a_worker_shows_that_it_lives_while_its_database_hangs(
    beating: Heartbeat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging, released = threading.Event(), threading.Event()

    def hang() -> float:
        hanging.set()
        released.wait(SECONDS)
        return 0.0

    monkeypatch.setattr(heartbeat, "clock_offset", hang)
    assert hanging.wait(SECONDS)
    monkeypatch.setenv(liveness.VARIABLE, str(tmp_path / "alive"))
    try:
        wait_until((tmp_path / "alive").exists)
    finally:
        released.set()


def test_a_run_of_a_silent_worker_is_requeued(run: Run, beating: Heartbeat) -> None:
    gone = timezone.now() - timedelta(seconds=1)
    Run.objects.filter(pk=run.pk).update(state=Run.State.RUNNING, lease="of a dead one", lease_expires_at=gone)
    wait_until(lambda: Run.objects.get(pk=run.pk).state == Run.State.QUEUED)


def test_a_leaving_worker_is_marked_and_reaps_no_runs(run: Run, beating: Heartbeat) -> None:
    beating.leave()
    wait_until(lambda: Worker.objects.filter(name="worker@here", stopping=True).exists())
    beating._reaper.join(SECONDS)
    beats = Worker.objects.get().last_seen_at
    gone = timezone.now() - timedelta(seconds=1)
    Run.objects.filter(pk=run.pk).update(state=Run.State.RUNNING, lease="of a dead one", lease_expires_at=gone)
    wait_until(lambda: Worker.objects.get().last_seen_at > beats + timedelta(seconds=0.2))
    assert Run.objects.get(pk=run.pk).state == Run.State.RUNNING
