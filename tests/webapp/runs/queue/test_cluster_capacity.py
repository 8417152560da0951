"""Which runs a worker's Ray cluster holds, and why the others wait."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from tests.webapp.conftest import People
from tests.webapp.pages.runs.test_worker_views import GIB, worker
from trainer.config.resources import ActorRequest, ClusterConfig
from trainer.config.run import RunConfig
from webapp.runs.launch.creation import SchedulingOptions, do_create_run
from webapp.runs.models import DeviceUse, Run, Worker
from webapp.runs.queue import capacity, device_classes, fair_share, order
from webapp.runs.queue.cluster_capacity import (
    ClusterCapacity,
    get_cluster_capacity,
    impossibility,
    requested_gpus,
    shortage,
)
from webapp.worker.claims import do_claim_next


def node(
    name: str, cpus: float, gpus: float = 0, *, cpus_free: float | None = None, gpus_free: float | None = None
) -> dict[str, Any]:
    return {
        "id": name,
        "name": name,
        "cpus": cpus,
        "cpus_free": cpus if cpus_free is None else cpus_free,
        "gpus": gpus,
        "gpus_free": gpus if gpus_free is None else gpus_free,
    }


def cluster(*nodes: dict[str, Any], problem: str = "") -> dict[str, Any]:
    return {"problem": problem, "nodes": list(nodes)}


def capacity_of(*nodes: dict[str, Any], held: Any = ()) -> ClusterCapacity:
    found = get_cluster_capacity(cluster(*nodes), held)
    assert found is not None
    return found


def stands(name: str, *nodes: dict[str, Any], problem: str = "", **fields: object) -> Worker:
    """A worker that stands for a cluster of these nodes."""
    queues = ["training", "cpu", "cluster"]
    standing: dict[str, object] = {"queues": queues, "slots": 9, "cluster": cluster(*nodes, problem=problem)}
    return worker(name, **standing | fields)


def config(**settings: object) -> dict[str, object]:
    return RunConfig.model_validate({"cluster": settings}).model_dump(mode="json")


def waits(people: People, title: str = "Big", minutes: float = 1, **settings: object) -> Run:
    return Run.objects.create(
        team=people.team,
        author=people.owner,
        title=title,
        environment="Sokoban",
        queue="cluster",
        config=config(**settings),
        queued_at=timezone.now() - timedelta(minutes=minutes),
    )


def words(run: Run) -> str:
    return order.queue_positions(timezone.now())[run.pk].text


def taken(one: Worker) -> str | None:
    run = do_claim_next(one, timezone.now())
    return run and run.title


def test_gpus_are_counted_where_the_cluster_has_any() -> None:
    actors = ClusterConfig(learners=1, rollout_actors=3, resources={"rollout_cpus": 2}).actors("train", "auto")
    assert capacity_of(node("a", 16)).demand(actors) == (7, 0)
    assert capacity_of(node("a", 16, 8)).demand(actors) == (7, 4)
    assert requested_gpus(actors) == 4
    on_cpu = ClusterConfig(learners=1, rollout_actors=3).actors("train", "cpu")
    assert capacity_of(node("a", 16, 8)).demand(on_cpu) == (4, 0)
    evaluation = ClusterConfig(learners=1, rollout_actors=3, resources={"rollout_gpus": 0.5}).actors("evaluate", "auto")
    assert capacity_of(node("a", 16, 8)).demand(evaluation) == (3, 1.5), "no learners"


def test_an_actor_must_fit_one_node() -> None:
    two = capacity_of(node("a", 4, 2), node("b", 4, 2))
    assert two.holds([ActorRequest(2, 1, 2)])
    assert not two.holds([ActorRequest(1, 1, 4)])
    assert not two.holds([ActorRequest(3, 3, 0)])
    assert shortage("w", two, [ActorRequest(1, 1, 4)]) == (
        "actors with 1 CPU and 4 GPUs each: the free parts of the nodes of worker w are too small"
    )
    assert impossibility("w", two, [ActorRequest(1, 1, 4)]) == (
        "actors with 1 CPU and 4 GPUs each: no node of the cluster of worker w is large enough for it"
    )
    assert not ClusterCapacity().holds([ActorRequest(1, 1, 0)])


def test_runs_that_have_not_placed_their_actors_yet_are_subtracted() -> None:
    nodes = node("a", 8, 4), node("b", 8, 4, gpus_free=1)
    assert capacity_of(*nodes).gpus_free == 5
    assert capacity_of(*nodes, held=[[ActorRequest(2, 1, 1)]]).gpus_free == 5, "those that b has placed"
    assert capacity_of(*nodes, held=[[ActorRequest(6, 1, 1)]]).gpus_free == 2
    assert get_cluster_capacity({}, []) is None


@given(
    nodes=st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8), st.integers(0, 8)), max_size=4),
    placed=st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from([0.5, 1, 2]), st.sampled_from([0, 0.5, 1])), max_size=4
    ),
)
def test_whatever_can_be_placed_is_held(
    nodes: list[tuple[int, int, int]], placed: list[tuple[int, float, float]]
) -> None:
    """Actors are put on nodes one after the other; what fits that way must never be refused."""
    free = [[float(cpus), float(gpus)] for cpus, gpus, _ in nodes]
    actors: dict[tuple[float, float], int] = {}
    for number, cpus, gpus in placed:
        if number < len(free) and free[number][0] >= cpus and free[number][1] >= gpus and len(actors) < 2:
            free[number][0] -= cpus
            free[number][1] -= gpus
            actors[cpus, gpus] = actors.get((cpus, gpus), 0) + 1
    found = capacity_of(*(node(str(number), cpus, gpus) for number, (cpus, gpus, _) in enumerate(nodes)))
    requests = [ActorRequest(count, cpus, gpus) for (cpus, gpus), count in actors.items()]
    assert found.holds(requests) == bool(nodes)


@pytest.mark.django_db
def test_a_run_with_actors_waits_for_its_cluster_with_a_reason(people: People) -> None:
    run = waits(people, rollout_actors=6, learners=2)
    assert words(run) == "Waiting for a worker that stands for a Ray cluster; none is running"
    worker("plain@here", queues=["training", "cpu", "cluster"])
    assert words(run) == "Waiting for a worker that stands for a Ray cluster; none is running"
    Worker.objects.all().delete()

    one = stands("ray@here", node("a", 16, 4), node("b", 16, 4, gpus_free=2, cpus_free=14), node("driver", 0))
    assert words(run) == (
        "1st in the queue for a Ray cluster; 1 worker, 9 slots free; waits for 8 GPUs: the cluster of worker ray@here "
        "has 8, 6 of them free"
    )
    assert taken(one) is None

    Worker.objects.update(cluster=cluster(node("a", 16, 4)))
    position = order.queue_positions(timezone.now())[run.pk]
    assert not position.possible
    assert position.text == (
        "Waiting for 8 GPUs: the cluster of worker ray@here has 4 in all; no registered cluster can ever hold this "
        "run. Launch it with less (cluster.rollout_actors, cluster.learners, and the CPUs and GPUs of each), or add "
        "nodes to the cluster"
    )
    Worker.objects.update(cluster=cluster(problem="No Ray cluster answers at 10.0.0.5:6379 (refused)."))
    assert words(run) == (
        "Waiting for the cluster of worker ray@here, which takes no run now: the workers page says why"
    )
    one.refresh_from_db()
    assert taken(one) is None

    Worker.objects.update(cluster=cluster(node("a", 16, 8)))
    one.refresh_from_db()
    assert "waits for" not in words(run)
    assert taken(one) == "Big"
    assert DeviceUse.objects.get().weight == 8, "the fair shares count the GPUs of its actors"


@pytest.mark.django_db
def test_a_run_goes_to_the_worker_whose_cluster_has_room(people: People) -> None:
    small, large = stands("small@here", node("a", 8, 2)), stands("large@here", node("b", 32, 8))
    plain = worker("plain@here", queues=["training", "cluster"])
    run = waits(people, rollout_actors=4)
    assert taken(plain) is None
    assert taken(small) is None
    assert words(run) == "1st in the queue for a Ray cluster; 1 worker, 9 slots free", "the others could never hold it"
    assert taken(large) == "Big"
    assert waits(people, "Second", rollout_actors=5).needs.actors[0].count == 5
    assert taken(large) is None, "its heartbeat still shows 8 free GPUs, but 4 of them are promised"


@pytest.mark.django_db
def test_a_large_run_is_not_starved_and_holds_up_no_run_without_actors(people: People) -> None:
    one = stands("ray@here", node("a", 8, 8))
    waits(people, "small 1", 60, rollout_actors=4)
    assert taken(one) == "small 1"
    large = waits(people, "large", 11, rollout_actors=8)
    waits(people, "small 2", 10, rollout_actors=2)
    assert taken(one) is None
    assert Run.objects.get(pk=large.pk).promised == one
    assert words(large).endswith("ray@here is reserved for it and takes no other run with Ray actors")
    plain = waits(people, "plain", 5)
    Run.objects.filter(pk=plain.pk).update(queue="training")
    assert taken(one) == "plain"


@pytest.mark.django_db
def test_what_the_driver_needs_of_the_machine(people: People) -> None:
    stands("ray@here", node("a", 16, 8))
    elsewhere = RunConfig.model_validate(
        {"policy": {"device": "cuda"}, "cluster": {"rollout_actors": 2, "learners": 1}}
    )
    run = do_create_run(people.team, people.owner, elsewhere, scheduling=SchedulingOptions(gpus=4))
    assert (run.queue, run.gpus, run.memory) == ("cluster", 1, None)
    assert do_create_run(people.team, people.owner, elsewhere).gpus == 0, "it only drives"
    here = RunConfig.model_validate({"cluster": {"rollout_actors": 2}})
    learns = do_create_run(people.team, people.owner, here)
    assert (learns.queue, learns.gpus) == ("cluster", 1)
    assert learns.memory is not None
    assert learns.memory_without_gpu is not None
    assert learns.memory_without_gpu < GIB < learns.memory
    assert order.projected_order([run], fair_share.DeviceShares(), timezone.now()) == [run]
    found = capacity.expected_wait(
        waits(people, rollout_actors=99), capacity.capacity_now(timezone.now()), timezone.now()
    )
    assert found.startswith("The run would wait for 99 GPUs: the cluster of worker ray@here has 8 in all")


def test_a_worker_with_a_cluster_serves_its_class() -> None:
    assert device_classes.served_classes("cpu", 0, cluster=True) == ["training", "cpu", "cluster"]
    assert device_classes.served_classes("cpu", 0) == ["training", "cpu"]
    assert device_classes.suggested_class(RunConfig.model_validate({"cluster": {"learners": 1}}), {"cpu"}) == "cluster"


def test_an_invalid_cluster_section_is_left_to_the_trainer() -> None:
    assert Run(config={"cluster": {"rollout_actors": "many"}}).needs.actors == ()
    assert Run(config={}).needs.actors == ()
