"""Claims: a worker takes the best run that fits, and concurrent workers never take the same one."""

from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connection
from django.utils import timezone
from pytest_django import Settings

from tests.webapp.conftest import People
from tests.webapp.pages.runs.test_worker_views import GIB, worker
from trainer.journal.protocol import JOURNAL_FILE
from webapp.runs import actions
from webapp.runs.models import DeviceUse, Run, Worker
from webapp.teams.models import Team
from webapp.worker import claims
from webapp.worker.claims import do_claim_next

pytestmark = pytest.mark.django_db(transaction=True)


def rack(name: str, gpus: int, **fields: object) -> Worker:
    devices = [{"id": str(number), "name": "A", "total": 24 * GIB, "free": 24 * GIB} for number in range(gpus)]
    return worker(name, queues=["training", "gpu"], gpus=devices, slots=8, **fields)


def waiting(team: Team, title: str, minutes: float = 0, **fields: object) -> Run:
    given = {"queue": "gpu", "gpus": 1, "config": {"policy": {"device": "cuda"}}} | fields
    return Run.objects.create(
        team=team,
        title=title,
        environment="Sokoban",
        queued_at=timezone.now() - timedelta(minutes=minutes),
        **given,  # type: ignore[arg-type]
    )


def taken(one: Worker) -> str | None:
    run = do_claim_next(one, timezone.now())
    return run and run.title


def test_the_message_does_not_determine_the_claimed_run(people: People) -> None:
    one = rack("w@here", 4)
    other = Team.objects.exclude(pk=people.team.pk).get()
    waiting(people.team, "first", 30)
    waiting(people.team, "second", 20)
    waiting(other, "of another team", 5)
    waiting(people.team, "urgent", 1, priority=Run.Priority.HIGH)
    assert [taken(one) for _ in range(4)] == ["urgent", "of another team", "first", "second"]
    assert taken(one) is None
    assert sorted(Run.objects.values_list("reserved", flat=True)) == [["0"], ["1"], ["2"], ["3"]]


def test_a_run_keeps_the_names_of_its_workers(people: People) -> None:
    run = waiting(people.team, "wandering")
    one, two = rack("one@here", 1), rack("two@here", 1)
    for by in (one, one, two):
        held = claims.do_claim_run(run.pk, by, timezone.now())
        assert held is not None
        assert actions.do_release_run(held, Run.State.QUEUED)
    Worker.objects.all().delete()
    run.refresh_from_db()
    assert run.claimed_by == ["one@here", "two@here"]


def test_runs_that_do_not_fit_are_left_to_other_workers(people: People) -> None:
    small, large = rack("small@here", 1), rack("large@here", 2)
    waiting(people.team, "two", 9, gpus=2)
    waiting(people.team, "for nobody here", 8, queue="h100")
    waiting(people.team, "one", 1)
    assert taken(small) == "one"
    assert taken(small) is None
    assert taken(large) == "two"
    assert Run.objects.get(title="two").reserved == ["0", "1"]


def test_gpus_are_freed_when_a_run_ends_or_a_worker_is_lost(people: People) -> None:
    one = rack("w@here", 1)
    waiting(people.team, "first", 9)
    waiting(people.team, "second", 8)
    first = do_claim_next(one, timezone.now())
    assert first is not None
    assert taken(one) is None
    assert actions.do_release_run(first, Run.State.FINISHED)
    assert taken(one) == "second"
    Run.objects.filter(title="second").update(lease_expires_at=timezone.now() - timedelta(seconds=1))
    actions.do_reap(timezone.now())
    assert Run.objects.get(title="second").reserved == []
    assert not DeviceUse.objects.filter(ended_at=None).exists()
    assert taken(one) == "second"


def test_a_draining_worker_claims_nothing(people: People) -> None:
    one = rack("w@here", 1)
    waiting(people.team, "first")
    Worker.objects.update(stopping=True)
    assert taken(one) is None


def test_a_multi_gpu_run_is_not_starved(people: People) -> None:
    one, other = rack("a@here", 2), rack("b@here", 2)
    for name, rig in (("small 1", one), ("small 2", other)):
        waiting(people.team, name, 60)
        assert taken(rig) == name
    waiting(people.team, "large", 11, gpus=2)
    waiting(people.team, "small 3", 10)
    assert taken(one) is None, "it keeps its second GPU for the large run"
    assert Run.objects.get(title="large").promised == one
    assert taken(other) == "small 3", "one worker waits for it, not all of them"
    first = Run.objects.get(title="small 1")
    actions.do_release_run(first, Run.State.FINISHED)
    assert taken(one) == "large"
    assert Run.objects.get(title="large").promised is None


def test_a_dead_worker_loses_its_reservation(people: People) -> None:
    one, other = rack("a@here", 2), rack("b@here", 2)
    for name, rig in (("small 1", one), ("small 2", other)):
        waiting(people.team, name, 60)
        assert taken(rig) == name
    waiting(people.team, "large", 11, gpus=2)
    assert taken(one) is None
    Worker.objects.filter(pk=one.pk).update(last_seen_at=timezone.now() - timedelta(minutes=5))
    assert taken(other) is None
    assert Run.objects.get(title="large").promised == other


def test_concurrent_workers_never_claim_the_same_run_or_gpu(people: People) -> None:
    other = Team.objects.exclude(pk=people.team.pk).get()
    racks = [rack(f"w{number}@here", 3) for number in range(2)]
    for number in range(5):
        waiting(people.team, f"ours {number}", 90 - number)
        waiting(other, f"theirs {number}", 9 - number)
    start = threading.Barrier(8)
    got: list[tuple[str, str, tuple[str, ...]]] = []

    def compete(one: Worker) -> None:
        try:
            start.wait(30)
            run = do_claim_next(one, timezone.now())
            if run is not None:
                got.append((one.name, run.title, tuple(run.reserved)))
        finally:
            connection.close()

    threads = [threading.Thread(target=compete, args=(racks[number % 2],)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len({title for _, title, _ in got}) == len(got) == 6, "six GPUs, six runs, two go away empty-handed"
    assert len({(name, gpu) for name, _, gpus in got for gpu in gpus}) == 6
    assert sum(title.startswith("ours") for _, title, _ in got) == 3, "and the teams took turns"


def test_the_same_run_is_claimed_by_one_of_many(run: Run) -> None:
    start = threading.Barrier(6)
    got: list[str] = []

    def compete() -> None:
        try:
            start.wait(30)
            claimed = claims.do_claim_run(run.pk, None, timezone.now())
            if claimed is not None:
                got.append(claimed.lease)
        finally:
            connection.close()

    threads = [threading.Thread(target=compete) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [Run.objects.get(pk=run.pk).lease] == got


def started_run(team: Team, title: str, data_folder: str) -> Run:
    """A run that has trained in that data folder, and waits to go on."""
    return waiting(team, title, 5, queue="training", gpus=0, config={}, journal_offset=900, data_folder=data_folder)


def test_a_run_continues_only_where_its_files_are(people: People, tmp_path: Path, settings: Settings) -> None:
    settings.ECHOSCOPE_DATA_DIR = tmp_path
    holder, other = worker("holder@a", data_folder="a" * 24), worker("other@b", data_folder="b" * 24)
    run = started_run(people.team, "began on a", holder.data_folder)
    waiting(people.team, "new", 1, queue="training", gpus=0, config={})
    assert taken(other) == "new", "it is passed over, whatever its place"
    assert taken(other) is None
    assert taken(holder) == "began on a"
    run.refresh_from_db()
    assert run.data_folder == holder.data_folder


def test_a_run_whose_folder_was_copied_continues_there(people: People, tmp_path: Path, settings: Settings) -> None:
    settings.ECHOSCOPE_DATA_DIR = tmp_path
    other = worker("other@b", data_folder="b" * 24)
    run = started_run(people.team, "began on a", "a" * 24)
    assert taken(other) is None
    run.folder.mkdir(parents=True)
    (run.folder / JOURNAL_FILE).touch()
    assert taken(other) == "began on a"
    run.refresh_from_db()
    assert run.data_folder == other.data_folder


def test_with_object_storage_any_worker_continues(people: People, tmp_path: Path, settings: Settings) -> None:
    settings.STORAGES = settings.STORAGES | {
        "runs": {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": {"location": str(tmp_path)}}
    }
    started_run(people.team, "began on a", "a" * 24)
    assert taken(worker("other@b", data_folder="b" * 24)) == "began on a"


@pytest.mark.parametrize(("of_run", "of_worker"), [("", "b" * 24), ("a" * 24, ""), ("a" * 24, "a" * 24)])
def test_an_unknown_data_folder_keeps_no_run_waiting(people: People, of_run: str, of_worker: str) -> None:
    started_run(people.team, "of an earlier version", of_run)
    assert taken(worker("w@here", data_folder=of_worker)) == "of an earlier version"
