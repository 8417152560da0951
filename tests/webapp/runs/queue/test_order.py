"""Queue order, and the reason why a run waits."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from tests.webapp.conftest import People
from tests.webapp.pages.runs.test_worker_views import GIB, worker
from trainer.config.run import RunConfig
from webapp.runs.launch.creation import SchedulingOptions, do_create_run
from webapp.runs.launch.estimates import needed_memory
from webapp.runs.models import DeviceUse, Run, Worker
from webapp.runs.queue import device_classes, fair_share
from webapp.runs.queue import order as line
from webapp.runs.queue.fair_share import DeviceShares
from webapp.runs.queue.placement import ResourceRequest
from webapp.teams.models import Team
from webapp.worker.claims import do_claim_next

NOW = datetime(2026, 5, 1, 12, tzinfo=timezone.get_default_timezone())
HOUR = timedelta(hours=1)


def waits(
    key: int, team: int = 1, minutes: float = 0, priority: int = 1, gpus: int = 0, author: int | None = None
) -> Run:
    since = NOW - timedelta(minutes=minutes)
    return Run(pk=key, team_id=team, author_id=author, queued_at=since, priority=priority, gpus=gpus, config={})


def teams(**used: float) -> DeviceShares:
    """Use by team: `teams(t1=5.0)`."""
    return DeviceShares({int(name[1:]): seconds for name, seconds in used.items()})


def keys(runs: list[Run]) -> list[int]:
    return [run.pk for run in runs]


def test_order_is_by_priority_then_fair_share_then_age() -> None:
    runs = [waits(1, minutes=60), waits(2, team=2, minutes=1), waits(3), waits(4, team=3, priority=0)]
    assert keys(line.claim_order(runs, teams(t1=5000.0, t2=10.0), NOW)) == [2, 1, 3, 4]
    assert keys(line.claim_order(runs, teams(), NOW)) == [1, 2, 3, 4]


def test_high_priority_comes_first_within_its_team_only() -> None:
    ours = [waits(1, minutes=60), waits(2, minutes=50), waits(3, priority=2)]
    theirs = [waits(11, team=2, minutes=30), waits(12, team=2, minutes=20)]
    assert keys(line.projected_order([*ours, *theirs], teams(), NOW)) == [3, 11, 1, 12, 2]
    assert keys(line.claim_order([*ours, *theirs], teams(t2=10.0), NOW)) == [3, 1, 2, 11, 12]


def test_a_new_team_with_high_priority_does_not_jump_the_queue() -> None:
    earlier = [waits(1, team=1, minutes=30, author=1), waits(2, team=1, minutes=20, author=1)]
    used = DeviceShares({1: 600.0}, {1: 600.0, 2: 900.0})
    jumper = waits(3, team=7, priority=2, author=2)
    assert keys(line.claim_order([*earlier, jumper], used, NOW)) == [1, 2, 3]


def test_a_person_gains_nothing_by_spreading_runs_over_teams() -> None:
    spread = [waits(key, team=key, minutes=60, author=1) for key in range(1, 5)]
    honest = waits(11, team=11, minutes=1, author=2)
    assert keys(line.projected_order([*spread, honest], teams(), NOW)) == [1, 11, 2, 3, 4]
    assert keys(line.claim_order([*spread, honest], DeviceShares({}, {1: 60.0}), NOW))[0] == 11


def test_people_of_a_team_alternate() -> None:
    many = [waits(key, minutes=50 - key, author=1) for key in range(1, 5)]
    few = [waits(11, minutes=5, author=2), waits(12, minutes=4, author=2)]
    assert keys(line.projected_order([*many, *few], teams(), NOW)) == [1, 11, 2, 12, 3, 4]


def test_long_waits_rise_above_every_priority() -> None:
    old, urgent = waits(1, priority=0, minutes=4 * 60 + 1), waits(2, priority=2, minutes=10)
    assert keys(line.claim_order([urgent, old], teams(t1=10.0**9), NOW)) == [1, 2], "same level, and it came first"
    older = waits(1, team=1, priority=0, minutes=6 * 60 + 1)
    assert keys(line.claim_order([waits(2, team=2, priority=2), older], teams(t1=10.0**9), NOW)) == [1, 2]


def test_teams_alternate_regardless_of_their_queue_length() -> None:
    many = [waits(key, team=1, minutes=50 - key) for key in range(1, 5)]
    few = [waits(11, team=2, minutes=5), waits(12, team=2, minutes=4)]
    assert keys(line.projected_order([*many, *few], teams(), NOW)) == [1, 11, 2, 12, 3, 4]
    assert keys(line.projected_order([*many, *few], teams(t1=7200.0), NOW))[:2] == [11, 12]


@given(
    runs=st.lists(
        st.tuples(
            st.integers(1, 3), st.floats(0, 1000), st.integers(0, 2), st.integers(0, 8), st.none() | st.integers(1, 3)
        ),
        max_size=12,
    ),
    used=st.dictionaries(st.integers(1, 3), st.floats(0, 1e6)),
    people=st.dictionaries(st.integers(1, 3), st.floats(0, 1e6)),
)
def test_the_queue_order_contains_each_run_once_and_starts_with_the_best(
    runs: list[tuple[int, float, int, int, int | None]], used: dict[int, float], people: dict[int, float]
) -> None:
    waiting = [
        waits(key, team, minutes, priority, gpus, author)
        for key, (team, minutes, priority, gpus, author) in enumerate(runs, 1)
    ]
    shares = DeviceShares(used, people)
    order = line.projected_order(waiting, shares, NOW)
    assert shares == DeviceShares(used, people), "only a copy is charged"
    assert sorted(keys(order)) == sorted(keys(waiting))
    assert keys(order)[:1] == keys(line.claim_order(waiting, shares, NOW))[:1]
    for team in {run.team_id for run in order}:
        levels = [line.level(run, NOW) for run in order if run.team_id == team]
        assert levels == sorted(levels, reverse=True), "a team starts its runs by priority"


@pytest.mark.parametrize(
    ("number", "expected"), [(1, "1st"), (2, "2nd"), (3, "3rd"), (11, "11th"), (22, "22nd"), (113, "113th")]
)
def test_positions_are_written_as_ordinals(number: int, expected: str) -> None:
    assert line.ordinal(number) == expected


@pytest.mark.django_db
def test_usage_halves_in_six_hours_and_held_gpus_count_an_hour_more(people: People, run: Run) -> None:
    other = Team.objects.exclude(pk=people.team.pk).get()
    past = {"began_at": NOW - 7 * HOUR, "ended_at": NOW - 6 * HOUR}
    DeviceUse.objects.create(team=people.team, author=people.owner, run=run, weight=2, **past)
    DeviceUse.objects.create(team=other, weight=1, began_at=NOW - timedelta(seconds=1))
    DeviceUse.objects.create(team=other, weight=9, began_at=NOW - 900 * HOUR, ended_at=NOW - 800 * HOUR)
    found = fair_share.used(NOW)
    hour_of_two_six_hours_ago = 2 * 3600 * 0.5 * 0.9446  # the hour itself faded by 5.5 % on average
    assert found.people == {people.owner.pk: pytest.approx(found.teams[people.team.pk])}
    assert found.teams[people.team.pk] == pytest.approx(hour_of_two_six_hours_ago, rel=1e-3)
    assert found.teams[other.pk] == pytest.approx(3600 + 1, rel=1e-3)


@pytest.mark.django_db
def test_claims_and_releases_record_team_usage(people: People, run: Run) -> None:
    fair_share.begin(run, 2, NOW)
    fair_share.begin(run, 3, NOW + HOUR)
    fair_share.end([run.pk], NOW + 2 * HOUR)
    assert set(DeviceUse.objects.values_list("author", flat=True)) == {people.owner.pk}
    uses = DeviceUse.objects.order_by("began_at").values_list("weight", "began_at", "ended_at")
    assert list(uses) == [(2.0, NOW, NOW + HOUR), (3.0, NOW + HOUR, NOW + 2 * HOUR)], "no time counts twice"


def crew() -> list[line.AvailableWorker]:
    return line.workers(timezone.now())


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("needs", "lack"),
    [
        (ResourceRequest("h100", 1), "a worker of class h100; none is running"),
        (ResourceRequest("gpu", 4), "a worker of class gpu with 4 GPUs; the largest running one has 2"),
        (ResourceRequest("cpu", 2), "a worker of class cpu with 2 GPUs; none is running"),
        (
            ResourceRequest("gpu", 1, 30 * GIB),
            "a worker of class gpu with a GPU of 30.0 GiB (estimated); the largest running one has 24.0 GiB",
        ),
        (
            ResourceRequest("cpu", 0, 20 * GIB),
            "a worker of class cpu with memory of 20.0 GiB (estimated); the largest running one has 16.0 GiB",
        ),
        (ResourceRequest("gpu", 2, 30 * GIB), ""),
        (ResourceRequest("training", 1, optional=True), ""),
    ],
)
def test_requirements_no_live_worker_meets_are_named(needs: ResourceRequest, lack: str) -> None:
    gpus = [{"id": str(number), "name": "A", "total": 24 * GIB, "free": 24 * GIB} for number in range(2)]
    machine = [{"name": "Machine", "total": 16 * GIB, "free": 9 * GIB}]
    worker("gpu@here", queues=["training", "gpu"], gpus=gpus, memory=machine)
    worker("cpu@here", queues=["training", "cpu"], memory=machine)
    worker("gone@here", queues=["h100"], silent=900)
    assert line.missing_resources(needs, crew()) == lack


@pytest.mark.django_db
def test_a_queued_run_shows_position_and_reason(people: People, run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(queued_at=timezone.now() - HOUR)
    second = do_create_run(people.team, people.owner, RunConfig(), scheduling=SchedulingOptions("gpu", 2))
    found = line.queue_positions(timezone.now())
    assert found[run.pk].text == "Waiting for a worker; none is running"
    assert found[second.pk].text == "Waiting for a worker of class gpu; none is running"
    assert not found[second.pk].possible
    worker("a@here", slots=2)
    third = do_create_run(people.team, people.owner, RunConfig(), scheduling=SchedulingOptions("training", 0))
    found = line.queue_positions(timezone.now())
    assert found[third.pk].text == "2nd in the queue; 1 worker, 2 slots free"
    assert (found[third.pk].position, found[second.pk].position) == (2, 1)


@pytest.mark.django_db
def test_a_run_whose_files_are_elsewhere_names_their_worker(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(journal_offset=900, data_folder="a" * 24)
    worker("here@b", data_folder="b" * 24)
    worker("holder@a", data_folder="a" * 24, silent=900)
    found = line.queue_positions(timezone.now())[run.pk]
    assert found.text.startswith("Waiting for worker holder@a, which has its files and is not running. Start it; or")
    assert f"runs/{run.slug}" in found.text
    assert not found.possible
    worker("second@a", data_folder="a" * 24, slots=3)
    found = line.queue_positions(timezone.now())[run.pk]
    assert found.text == "1st in the queue; 1 worker, 3 slots free; its files are there and nowhere else"
    assert found.possible


def queued_run(people: People, minutes: float, **fields: Any) -> Run:
    """A run in the queue of any worker, without GPUs or memory unless they are given."""
    new = do_create_run(people.team, people.owner, RunConfig(), scheduling=SchedulingOptions("training", 0))
    fields = {"memory": None, "queued_at": timezone.now() - timedelta(minutes=minutes)} | fields
    Run.objects.filter(pk=new.pk).update(**fields)
    return Run.objects.get(pk=new.pk)


def held_run(people: People, holder: Worker, **fields: Any) -> None:
    queued_run(people, 60, state=Run.State.RUNNING, worker=holder, **fields)


def words_of(waiting: Run) -> str:
    """The reason behind position, workers and slots."""
    found = line.queue_positions(timezone.now())[waiting.pk]
    assert found.possible
    return found.text.split("; ", 2)[2]


MACHINE = [{"name": "Machine", "total": 24 * GIB, "free": 20 * GIB}]


@pytest.mark.django_db
def test_a_run_that_waits_for_memory_names_the_shortage(people: People) -> None:
    one = worker("x@here", slots=3, memory=MACHINE)
    held_run(people, one, memory=15 * GIB)
    large = queued_run(people, 5, memory=10 * GIB)
    assert do_claim_next(one, timezone.now()) is None
    reason = "waits for 10.0 GiB of memory (estimated): worker x@here has 9.0 of 24.0 GiB free; "
    assert words_of(large) == f"{reason}1 run has reserved 15.0 GiB"
    held_run(people, one, memory=1 * GIB)
    assert words_of(large).endswith("has 8.0 of 24.0 GiB free; 2 runs have reserved 16.0 GiB")
    Run.objects.filter(state=Run.State.RUNNING).update(state=Run.State.FINISHED)
    Worker.objects.update(memory=[MACHINE[0] | {"free": 9 * GIB}])
    assert words_of(large).endswith("has 9.0 of 24.0 GiB free; other programs use the rest")
    small = queued_run(people, 1, memory=GIB)
    assert line.queue_positions(timezone.now())[small.pk].text == "2nd in the queue; 1 worker, 3 slots free"


@pytest.mark.django_db
def test_a_run_that_waits_for_gpus_names_the_shortage(people: People) -> None:
    gpus = [{"id": str(number), "name": "A", "total": 24 * GIB, "free": 20 * GIB} for number in range(2)]
    one = worker("x@here", slots=4, gpus=gpus, runs_per_gpu=2, memory=MACHINE)
    crowded = queued_run(people, 5, gpus=1, memory=22 * GIB)
    assert do_claim_next(one, timezone.now()) is None
    freest = "the freest of worker x@here has 20.0 of 24.0 GiB free"
    assert words_of(crowded) == f"waits for 22.0 GiB of memory (estimated) on a GPU: {freest}"
    Worker.objects.update(runs_per_gpu=1)
    one.refresh_from_db()
    held_run(people, one, gpus=1, reserved=["1"])
    several = queued_run(people, 20, gpus=2)
    assert do_claim_next(one, timezone.now()) is None, "the run for two GPUs has waited long enough to reserve it"
    reason = "waits for 2 GPUs: worker x@here has 2, 1 of them free; x@here is reserved for it and takes no other run"
    assert words_of(several) == reason
    small = queued_run(people, 1, gpus=1)
    assert do_claim_next(one, timezone.now()) is None
    assert words_of(small) == "worker x@here is reserved for an earlier run, which waits for 2 GPUs"


@pytest.mark.django_db
def test_an_optional_gpu_is_not_counted_where_there_is_none(people: People) -> None:
    """A run that may use a GPU asks a worker without one for the memory that it takes on a processor."""
    config = RunConfig.model_validate({"policy": {"model": "HuggingFaceTB/SmolLM2-135M-Instruct", "dtype": "float32"}})
    run = do_create_run(people.team, people.owner, config)
    assert (run.queue, run.gpus) == ("training", 1)
    on_gpu, on_cpu = needed_memory(config, 1), needed_memory(config, 0)
    assert (run.memory, run.memory_without_gpu) == (on_gpu, on_cpu)
    assert on_gpu is not None
    assert on_cpu is not None
    assert on_cpu < on_gpu
    between = [MACHINE[0] | {"free": (on_cpu + on_gpu) // 2}]
    claimed = do_claim_next(worker("x@here", slots=2, memory=between), timezone.now())
    assert claimed == run
    assert claimed.memory_held == on_cpu


@pytest.mark.django_db
def test_files_on_a_worker_that_cannot_take_the_run_are_named(people: People) -> None:
    run = queued_run(people, 5, queue="gpu", gpus=1, journal_offset=900, data_folder="a" * 24)
    gpus = [{"id": "0", "name": "A", "total": 24 * GIB, "free": 24 * GIB}]
    worker("able@b", queues=["training", "gpu"], gpus=gpus, data_folder="b" * 24)
    worker("holder@a", data_folder="a" * 24)
    found = line.queue_positions(timezone.now())[run.pk]
    assert found.text.startswith("Waiting for a worker with its files: holder@a has them, but not the devices")
    assert not found.possible


def test_a_configuration_requests_a_device_it_can_use() -> None:
    pocket, cuda, cpu = (RunConfig.model_validate({"policy": {"device": device}}) for device in ("auto", "cuda", "cpu"))
    large = RunConfig.model_validate({"policy": {"model": "Qwen/Qwen2.5-0.5B-Instruct"}})
    everything = {"training", "cpu", "gpu"}
    assert [device_classes.suggested_class(one, everything) for one in (pocket, cuda, cpu, large)] == [
        "cpu",
        "gpu",
        "cpu",
        "gpu",
    ]
    assert [device_classes.suggested_class(one, set()) for one in (pocket, cuda, cpu, large)] == [
        "training",
        "gpu",
        "training",
        "training",
    ]
    assert device_classes.default_gpus(cpu, "training") == 0
    assert device_classes.default_gpus(pocket, "cpu") == 0
    assert device_classes.default_gpus(pocket, "training") == 1


def test_a_worker_serves_its_hardware_and_configured_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(device_classes.VARIABLE, raising=False)
    assert (device_classes.class_of_worker(0), device_classes.class_of_worker(4)) == ("cpu", "gpu")
    monkeypatch.setenv(device_classes.VARIABLE, "h100")
    assert device_classes.served_classes(device_classes.class_of_worker(8), 8) == ["training", "gpu", "h100"]
    monkeypatch.setenv(device_classes.VARIABLE, "big gpus")
    with pytest.raises(ValueError, match="letters, digits"):
        device_classes.class_of_worker(8)


@pytest.mark.django_db
def test_waiting_runs_start_when_running_ones_end(people: People) -> None:
    one = worker("x@here", slots=2)
    for remaining in (3000, 600):
        held_run(people, one, eta_seconds=remaining)
    first, second, third = (queued_run(people, minutes) for minutes in (30, 20, 10))
    found = line.queue_positions(timezone.now())
    assert found[first.pk].text == "1st in the queue; 1 worker, no slot free; starts in about 10 min"
    assert found[second.pk].text == "2nd in the queue; 1 worker, no slot free; starts in about 50 min"
    assert found[third.pk].text == "3rd in the queue; 1 worker, no slot free"
