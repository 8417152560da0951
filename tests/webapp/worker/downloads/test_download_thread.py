"""Downloads of models by a worker's thread: real processes and a real store; progress, cancellation, lost workers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta

import pytest
from django.utils import timezone
from pytest_django import Settings

from tests.patience import wait_until
from tests.webapp.conftest import People
from trainer.models import store
from webapp.runs.models import Run, StoredModel, Worker
from webapp.runs.stored_models import model_requests
from webapp.worker.claims import do_claim_next
from webapp.worker.downloads import models_folder
from webapp.worker.downloads.download_thread import MAX_ATTEMPTS, ModelDownloads, do_claim_download

pytestmark = pytest.mark.django_db(transaction=True)
NAME = "smollm2-135m"
State = StoredModel.State


def act(scene: str) -> Callable[[str], Sequence[str]]:
    return lambda name: [sys.executable, "-m", "tests.webapp.worker.downloads.scripted_fetch", scene, name]


@pytest.fixture
def worker(people: People, tmp_path: object, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Worker:
    settings.ECHOSCOPE_DATA_DIR = tmp_path
    monkeypatch.delenv("ECHOSCOPE_MODELS")
    models_folder.set_models_folder()
    now = timezone.now()
    return Worker.objects.create(
        name="worker@here",
        queues=["training"],
        started_at=now,
        last_seen_at=now,
        model_store=models_folder.store_identity(),
    )


@pytest.fixture
def threads(worker: Worker) -> Iterator[Callable[[str], ModelDownloads]]:
    """Starts threads whose download acts a scene, and ends them."""
    started: list[ModelDownloads] = []

    def start(scene: str) -> ModelDownloads:
        started.append(ModelDownloads(worker.name, worker.model_store, act(scene), pace=0.04))
        started[-1].start()
        return started[-1]

    yield start
    for thread in started:
        thread.stop()


def state() -> str:
    return StoredModel.objects.filter(name=NAME).values_list("state", flat=True).first() or ""


def test_a_model_is_installed_and_the_run_that_waits_for_it_starts(
    run: Run, people: People, worker: Worker, threads: Callable[[str], ModelDownloads]
) -> None:
    run.config["policy"]["model"] = NAME
    run.save(update_fields=["config"])
    assert do_claim_next(worker, timezone.now()) is None, "its model is missing"
    model_requests.do_request_download(people.owner, NAME)
    threads("installs")
    wait_until(lambda: state() == State.INSTALLED)
    stored = StoredModel.objects.get()
    assert (stored.source, stored.licence, stored.shape["hidden_size"]) == ("a test", "MIT", 64)
    assert stored.bytes == store.installed()[0].bytes
    assert do_claim_next(worker, timezone.now()) == run


def test_a_cancelled_download_ends_its_process_and_leaves_nothing(
    people: People, worker: Worker, threads: Callable[[str], ModelDownloads]
) -> None:
    model_requests.do_request_download(people.owner, NAME)
    threads("hangs")
    wait_until(lambda: StoredModel.objects.filter(done_bytes=40, total_bytes=100, state=State.DOWNLOADING).exists())
    model_requests.do_cancel_download(people.owner, NAME, worker.model_store)
    wait_until(lambda: not StoredModel.objects.exists())
    assert store.unfinished() == []
    assert store.installed() == []


@pytest.mark.parametrize(("scene", "message"), [("fails", "the disk is full, free 1 GB"), ("killed", "SIGKILL")])
def test_a_failed_download_shows_its_reason_and_can_be_started_again(
    scene: str, message: str, people: People, threads: Callable[[str], ModelDownloads]
) -> None:
    model_requests.do_request_download(people.owner, NAME)
    thread = threads(scene)
    wait_until(lambda: state() == State.FAILED)
    assert message in StoredModel.objects.get().error
    thread.stop()
    model_requests.do_request_download(people.owner, NAME)
    threads("installs")
    wait_until(lambda: state() == State.INSTALLED)
    assert StoredModel.objects.get().error == ""


def test_a_stopped_worker_gives_its_download_back_and_another_one_continues_it(
    people: People, worker: Worker, threads: Callable[[str], ModelDownloads]
) -> None:
    model_requests.do_request_download(people.owner, NAME)
    thread = threads("hangs")
    wait_until(lambda: StoredModel.objects.filter(done_bytes=40).exists())
    thread.stop()
    stored = StoredModel.objects.get()
    assert (stored.state, stored.attempts) == (State.QUEUED, 0)
    assert store.unfinished()[0].bytes >= 40, "what was downloaded is kept"
    threads("installs")
    wait_until(lambda: state() == State.INSTALLED)


def test_a_dead_download_is_taken_over_until_it_has_cost_several_workers(people: People, worker: Worker) -> None:
    model_requests.do_request_download(people.owner, NAME)
    now = timezone.now()
    for attempt in range(MAX_ATTEMPTS):
        claimed = do_claim_download(worker.model_store, worker, now)
        assert claimed is not None
        assert claimed.attempts == attempt + 1
        assert do_claim_download(worker.model_store, worker, now) is None, "one at a time"
        now += timedelta(minutes=1)
    assert do_claim_download(worker.model_store, worker, now) is None
    assert (state(), "3 times" in StoredModel.objects.get().error) == (State.FAILED, True)


def test_models_installed_or_removed_on_the_command_line_are_listed(
    worker: Worker, threads: Callable[[str], ModelDownloads]
) -> None:
    threads("installs")
    folder = store.models_folder() / "mine"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    wait_until(lambda: StoredModel.objects.filter(name="mine", state=State.INSTALLED).exists())
    store.remove("mine")
    wait_until(lambda: not StoredModel.objects.exists())


def test_a_deleted_model_is_gone_from_the_disk_unless_a_run_uses_it(
    run: Run, people: People, worker: Worker, threads: Callable[[str], ModelDownloads]
) -> None:
    model_requests.do_request_download(people.owner, NAME)
    threads("installs")
    wait_until(lambda: state() == State.INSTALLED)
    run.config["policy"]["model"] = NAME
    run.save(update_fields=["config"])
    with pytest.raises(model_requests.RequestRefused, match="1 run that is queued or running uses smollm2-135m"):
        model_requests.do_delete_model(people.owner, NAME, worker.model_store)
    Run.objects.update(state=Run.State.PAUSED)
    model_requests.do_delete_model(people.owner, NAME, worker.model_store)
    wait_until(lambda: not StoredModel.objects.exists())
    assert store.installed() == []
