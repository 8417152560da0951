"""Workers page: live workers, memory, their runs, and the queue."""

from __future__ import annotations

import html
from datetime import timedelta

import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from tests.webapp.conftest import People
from tests.webapp.fragments import contains
from tests.webapp.page_requests import Visitors, who
from trainer.memory import gpu_usage
from webapp.runs.models import Run, Worker
from webapp.runs.queue.capacity import capacity_now, present_wait
from webapp.worker import hardware
from webapp.worker.heartbeat import Heartbeat
from webapp.worker.sandbox import landlock, trainer_sandbox

__all__ = ["who"]

GIB = 2**30


def worker(name: str, *, silent: float = 0, **fields: object) -> Worker:
    now = timezone.now()
    given = {"device": "CPU, 2 threads", "queues": ["training"], "slots": 1} | fields
    return Worker.objects.create(
        name=name,
        started_at=now,
        last_seen_at=now - timedelta(seconds=silent),
        **given,  # type: ignore[arg-type]
    )


def page(client: object) -> str:
    return html.unescape(client.get("/workers").content.decode())  # type: ignore[attr-defined]


def test_a_worker_that_cannot_confine_trainers_says_what_to_do(who: Visitors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(trainer_sandbox.VARIABLE, "auto")
    monkeypatch.setattr(landlock, "version", lambda: 0)
    confined = Heartbeat("worker@old-kernel", [], 1).description["weaknesses"]
    worker("worker@old-kernel", silent=-60, weaknesses=confined)  # alive, however long the page takes
    worker("worker@lost", silent=3600, weaknesses=["Of a lost worker."])
    shown = page(who.viewer)
    assert "Trainers run without a sandbox, as this system has no Landlock" in shown
    assert "Start the worker on Linux 5.19 or newer with Landlock." in shown
    assert "Of a lost worker." not in shown


def test_workers_show_their_runs_to_members_only(run: Run, who: Visitors) -> None:
    one = worker("worker@here")
    Run.objects.filter(pk=run.pk).update(
        state=Run.State.RUNNING,
        worker=one,
        phase="rollout",
        phase_iteration=2,
        phase_done=3,
        phase_total=8,
        phase_unit="trajectories",
        eta_seconds=600,
    )
    mine = page(who.viewer)
    assert "Trial" in mine
    assert contains(mine, "Iteration 2 of 4 · rollout 3 of 8 trajectories · 10 min left")
    stranger = page(who.outsider)
    assert "worker@here" in stranger
    assert "Trial" not in stranger
    assert contains(stranger, "1 run of another team")
    assert who.anonymous.get("/workers").status_code == 302


def test_memory_is_shown(who: Visitors) -> None:
    memory = [{"name": "Machine", "total": 24 * GIB, "free": 6 * GIB}, {"name": "H200", "total": 140 * GIB, "free": 0}]
    worker("worker@here", memory=memory)
    shown = page(who.owner)
    assert "Machine: 6.0 of 24.0 GiB free" in shown
    assert "H200: 0.0 of 140.0 GiB free" in shown
    assert 'value="0.750"' in shown


def test_a_silent_worker_is_lost_and_a_leaving_one_is_marked(who: Visitors) -> None:
    worker("gone@there", silent=3600)
    worker("going@here", stopping=True)
    shown = page(who.owner)
    assert contains(shown, ">Lost<")
    assert contains(shown, ">Stopping<")
    assert "No worker is running for it" not in shown


def test_queued_runs_are_listed_with_position_and_time(people: People, run: Run, who: Visitors) -> None:
    Run.objects.create(team=people.team, author=people.owner, title="Second", config={}, environment="Sokoban")
    Run.objects.filter(pk=run.pk).update(created_at=timezone.now() - timedelta(minutes=20))
    shown = page(who.viewer)
    assert shown.index("Trial") < shown.index("Second")
    assert "for 20 min" in shown
    assert "2 runs waiting" in shown
    assert "No worker is running for it." in shown
    stranger = page(who.outsider)
    assert "Trial" not in stranger
    assert "2 runs waiting" in stranger


def test_without_workers_the_page_explains_how_to_start_one(who: Visitors) -> None:
    assert "celery -A webapp worker" in page(who.owner)


@pytest.mark.parametrize("count", [1, 9])
def test_the_query_count_of_the_workers_page_is_constant(
    count: int, people: People, who: Visitors, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(count):
        one = worker(f"worker{number}@here")
        for state in (Run.State.RUNNING, Run.State.QUEUED):
            Run.objects.create(
                team=people.team, title=f"{state} {number}", config={}, environment="Sokoban", state=state, worker=one
            )
    with django_assert_max_num_queries(15):  # the queue queries shares and capacity
        who.owner.get("/workers")


def test_a_refresh_gets_a_partial(who: Visitors) -> None:
    part = who.owner.get("/workers", headers={"HX-Request": "true"}).content.decode()
    assert "<html" not in part
    assert 'id="workers"' in part


def test_capacity_counts_free_slots_of_live_workers(run: Run) -> None:
    busy = worker("busy@here", slots=2)
    worker("gone@there", silent=600, slots=8)
    worker("gpu@there", queues=["gpu"], slots=1, device="H200")
    Run.objects.filter(pk=run.pk).update(state=Run.State.RUNNING, worker=busy)
    known = capacity_now(timezone.now())
    assert known.workers == {"training": 1, "gpu": 1}
    assert known.free == {"training": 1, "gpu": 1}
    assert known.sentence("training", 0) == "1 worker, 1 slot free: the run starts at once."
    assert known.sentence("training", 2) == "1 worker, 1 slot free; 2 runs waiting before this one."
    assert known.sentence("other", 0).startswith("No worker is running")


def test_the_outlook_of_an_unfinished_form_counts_the_queued_runs(people: People, run: Run) -> None:
    worker("busy@here", slots=0)
    Run.objects.create(
        team=people.team, author=people.owner, title="Second", config={}, environment="Sokoban", queue="cpu"
    )
    assert present_wait(capacity_now(timezone.now())) == "1 worker, 0 slots free; 2 runs waiting before this one."


def test_the_host_reports_its_memory() -> None:
    found = hardware.describe_memory([])
    assert found[0]["name"] == "Machine"
    assert 0 < found[0]["free"] <= found[0]["total"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("1, GPU-7f, NVIDIA A100, 40G, 81920, 80000", ("GPU-7f", "1", "NVIDIA A100, 40G", 81920, 80000)),
        ("0, GPU-1, NVIDIA GB10, [N/A], [N/A]", ("GPU-1", "0", "NVIDIA GB10", None, None)),
        ("", None),
    ],
)
def test_gpus_report_their_memory_if_available(line: str, expected: tuple[object, ...] | None) -> None:
    found = hardware._gpu(line)
    if found is None:
        assert expected is None
        return
    uuid, gpu = found
    sizes = [None if size is None else size // hardware.MIB for size in (gpu["total"], gpu["free"])]
    assert (uuid, gpu["id"], gpu["name"], *sizes) == expected


@pytest.mark.parametrize(
    ("visible", "numbers"), [(None, ["0", "1"]), ("1", ["1"]), ("GPU-b,GPU-a", ["1", "0"]), ("", []), ("7", [])]
)
def test_a_worker_uses_the_gpus_visible_in_its_environment(
    visible: str | None, numbers: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ["0, GPU-a, H200, 100, 90", "1, GPU-b, H200, 100, 80"]
    monkeypatch.setattr(gpu_usage, "query_gpus", lambda fields: lines)
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert [gpu["id"] for gpu in hardware.describe_gpus()] == numbers


@pytest.mark.parametrize(("folders", "warned"), [("aa", ""), ("aab", "b"), ("ab", "ab"), ("a-", "")])
def test_workers_without_a_common_data_folder_are_warned_of(folders: str, warned: str, who: Visitors) -> None:
    for number, folder in enumerate(folders):
        worker(f"w{number}@here", data_folder=folder.replace("-", ""))
    assert page(who.viewer).count("It has a data folder of its own") == len(warned)


def cluster_node(name: str, gpus: float = 0, gpus_free: float = 0) -> dict[str, object]:
    return {"id": name, "name": name, "cpus": 32.0, "cpus_free": 30.5, "gpus": gpus, "gpus_free": gpus_free}


def test_the_nodes_of_a_cluster_are_shown_with_what_is_busy_of_them(who: Visitors) -> None:
    driver = {"id": "c", "name": "driver", "cpus": 0.0, "cpus_free": 0.0, "gpus": 0.0, "gpus_free": 0.0}
    nodes = [cluster_node("gpu-1", 8.0, 2.0), cluster_node("cpu-1"), driver]
    one = worker("ray@here", cluster={"problem": "", "nodes": nodes})
    shown = page(who.outsider)
    assert contains(shown, "3 nodes · 6 of 8 GPUs busy, 2 free · 3 of 64 CPUs busy, 61 free")
    assert 'aria-label="gpu-1: 6 of 8 GPUs busy, 2 free"' in shown
    assert 'value="0.750"' in shown
    assert 'aria-label="cpu-1: 1.5 of 32 CPUs busy, 30.5 free"' in shown
    assert "no CPUs or GPUs for actors" in shown

    Worker.objects.filter(pk=one.pk).update(cluster={"problem": "No Ray cluster answers at a:1.", "nodes": []})
    assert contains(page(who.viewer), "Takes no run now. No Ray cluster answers at a:1.")
    Worker.objects.filter(pk=one.pk).update(last_seen_at=timezone.now() - timedelta(hours=1))
    assert "Ray cluster of" not in page(who.viewer), "nothing is known of a lost worker's"
