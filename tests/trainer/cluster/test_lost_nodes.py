"""Nodes that leave a Ray cluster in the middle of a run: their actors start again on others, and nothing is lost."""

from collections.abc import Iterator

import psutil
import pytest

from tests.trainer.cluster.journals import check_order, facts
from tests.trainer.cluster.selection import on_request
from tests.trainer.cluster.test_learner_actors import near, on_cluster, responses, small
from tests.trainer.loops.test_train import events, in_a_process, run, same_weights, wait_for_a_turn, weights
from trainer.config.resources import RAY_ADDRESS_VARIABLE
from trainer.journal.events import Notice, RunStarted

ray_clusters = pytest.importorskip("ray.cluster_utils")

NODE = {"object_store_memory": 100 * 2**20, "include_dashboard": False}


class Nodes:
    """A cluster of several nodes on this machine, whose head runs no actors."""

    def __init__(self, count: int, cpus: int) -> None:
        self._cluster = ray_clusters.Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **NODE})
        self.address = self._cluster.address
        self._nodes = [self._cluster.add_node(num_cpus=cpus, object_store_memory=100 * 2**20) for _ in range(count)]

    def kill_one_with(self, actor: str) -> None:
        """Kill all processes of a node on which an actor of the class runs."""
        for node in self._nodes:
            (raylet,) = node.all_processes["raylet"]
            workers = psutil.Process(raylet.process.pid).children(recursive=True)
            if any(" ".join(worker.cmdline()).startswith(f"ray::{actor}") for worker in workers):
                self._cluster.remove_node(node, allow_graceful=False)
                return
        pytest.fail(f"no node has a {actor}")

    def end(self) -> None:
        self._cluster.shutdown()


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Nodes]:
    started = Nodes(3, cpus=1)
    monkeypatch.setenv(RAY_ADDRESS_VARIABLE, started.address)
    yield started
    started.end()


@on_request
@pytest.mark.parametrize(("learners", "actors", "lost"), [(0, 2, "RolloutActor"), (1, 1, "LearnerActor")])
def test_a_run_goes_on_after_a_node_with_one_of_its_actors_died(
    nodes: Nodes, llama_folder, tmp_path, monkeypatch, learners: int, actors: int, lost: str
) -> None:
    config = on_cluster(small(llama_folder, iterations=3), learners, actors)
    process = in_a_process(config, tmp_path / "broken")
    wait_for_a_turn(process, tmp_path / "broken", 2)
    nodes.kill_one_with(lost)
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, output + errors
    monkeypatch.delenv(RAY_ADDRESS_VARIABLE)
    run(small(llama_folder, iterations=3), tmp_path / "unbroken")
    assert any("was lost" in notice.message for notice in events(tmp_path / "broken", Notice))
    check_order(tmp_path / "broken")
    assert responses(tmp_path / "broken") == responses(tmp_path / "unbroken")
    if learners:
        assert [event.from_iteration for event in events(tmp_path / "broken", RunStarted)] == [0, 1]
        assert near(weights(tmp_path / "broken"), weights(tmp_path / "unbroken")) < 1e-5
    else:
        same_weights(weights(tmp_path / "broken"), weights(tmp_path / "unbroken"))
        assert set(facts(tmp_path / "unbroken")) <= set(facts(tmp_path / "broken"))
