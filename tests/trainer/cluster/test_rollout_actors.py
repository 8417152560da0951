"""Rollouts on Ray actors: the same run as in one process, stop and resume, lost actors."""

import os
import signal
from contextlib import suppress

import pytest

from tests.trainer import tiny
from tests.trainer.cluster.journals import check_order, facts
from tests.trainer.cluster.processes import listening_addresses, pids
from tests.trainer.cluster.selection import on_request
from tests.trainer.loops.test_train import count_turns, events, run, same_weights, weights
from trainer import timeouts
from trainer.cluster.errors import ClusterError
from trainer.cluster.ray_rollout_pool import RayRolloutPool
from trainer.cluster.rollout_actor import RolloutActor
from trainer.config.files import load_preset, with_overrides
from trainer.config.run import RunConfig
from trainer.journal.events import Notice, RunStarted, UpdateSkipped
from trainer.memory.oom import OutOfMemoryError
from trainer.rollout.runner import EnvironmentsFailedError

pytestmark = pytest.mark.usefixtures("cluster")


def on_actors(config: RunConfig, actors: int, **cluster: object) -> RunConfig:
    data = config.model_dump()
    data["cluster"] |= {"rollout_actors": actors, **cluster}
    return RunConfig.model_validate(data)


def small(folder, **sections):
    """Three groups, each in a session of its own; equal rewards give a gradient, too."""
    parts = {
        "rollout": {"groups": 3, "groups_per_session": 1},
        "algorithm": {"estimator": "reinforce_plus_plus", "drop_zero_std": False, "gamma": 0.9},
        "evaluation": {"prompts": 3},
    }
    return tiny.config(folder, **(parts | sections))


@on_request
def test_the_pocket_preset_is_bit_for_bit_the_same_on_three_actors(tmp_path):
    changes = ["iterations=5", "rollout.groups=3", "rollout.group_size=4", "rollout.max_turns=3"]
    changes += ["rollout.groups_per_session=1", "policy.threads=1", "policy.device=cpu", "evaluation.prompts=4"]
    config = with_overrides(load_preset("sokoban-starpo_s-pocket"), changes)
    run(config, tmp_path / "one")
    run(on_actors(config, 3), tmp_path / "three")
    same_weights(weights(tmp_path / "one"), weights(tmp_path / "three"))
    assert facts(tmp_path / "one") == facts(tmp_path / "three")
    check_order(tmp_path / "three")


@on_request
def test_adapters_are_passed_to_actors_also_on_resume(llama_folder, tmp_path):
    config = small(llama_folder, lora={"rank": 4, "alpha": 8}, iterations=3)
    run(config, tmp_path / "one")
    folder = tmp_path / "two"
    end = run(on_actors(config, 2), folder, stop=lambda: count_turns(folder, 2) > 0)
    assert (end.reason, end.iteration) == ("interrupted", 1)
    check_order(folder)
    run(on_actors(config, 2), folder)
    assert [event.from_iteration for event in events(folder, RunStarted)] == [0, 1]
    same_weights(weights(tmp_path / "one"), weights(folder))


def test_groups_of_a_killed_actor_are_played_again_by_another(llama_folder, tmp_path):
    config = small(llama_folder, iterations=2)
    run(config, tmp_path / "one")
    folder = tmp_path / "two"
    killed = []

    def kill_once():
        if not killed and count_turns(folder, 2):
            assert listening_addresses() <= {"127.0.0.1", "::1"}, "no port is open to the network"
            killed.append(pids("RolloutActor")[0])
            os.kill(killed[0], signal.SIGKILL)
        return False

    assert run(on_actors(config, 2), folder, stop=kill_once).reason == "completed"
    lost = f"process {killed[0]} was lost and is replaced"
    assert sum(lost in notice.message for notice in events(folder, Notice)) == 1
    check_order(folder)
    assert [fact for fact in facts(folder) if lost not in fact] == facts(tmp_path / "one")
    same_weights(weights(tmp_path / "one"), weights(folder))
    assert not events(folder, UpdateSkipped)


def dies_once(marker):
    """A class of actors of which the first that loads is killed, as a file remembers."""

    class Mortal(RolloutActor):
        def prepare(self, files, weights):
            with suppress(FileExistsError), marker.open("x"):
                os.kill(os.getpid(), signal.SIGKILL)
            return super().prepare(files, weights)

    return Mortal


@on_request
def test_an_actor_killed_before_it_is_ready_is_started_again(llama_folder, tmp_path, monkeypatch):
    config = small(llama_folder, iterations=1)
    run(config, tmp_path / "one")
    monkeypatch.setattr(RayRolloutPool, "actor_class", dies_once(tmp_path / "died"))
    folder = tmp_path / "two"
    assert run(on_actors(config, 2), folder).reason == "completed"
    (notice,) = events(folder, Notice)
    assert "was lost before it was ready and is started again" in notice.message
    same_weights(weights(tmp_path / "one"), weights(folder))


@on_request
def test_an_environment_that_fails_everywhere_ends_the_run_with_the_reason(llama_folder, tmp_path):
    config = small(llama_folder, environment={"name": "Boxoban", "settings": {"path": "/nowhere"}})
    with pytest.raises(EnvironmentsFailedError, match="no trajectory could be played to its end"):
        run(on_actors(config, 2), tmp_path / "run")
    check_order(tmp_path / "run")


@on_request
def test_a_suite_is_played_by_actors_as_by_one_process(llama_folder, tmp_path):
    config = small(llama_folder, kind="evaluate", evaluation={"prompts": 4})
    run(config, tmp_path / "one")
    run(on_actors(config, 2), tmp_path / "two")
    assert facts(tmp_path / "one") == facts(tmp_path / "two")
    check_order(tmp_path / "two")


def test_a_run_too_large_for_its_cluster_ends_with_what_is_missing(llama_folder, tmp_path, monkeypatch):
    monkeypatch.setenv(timeouts.CLUSTER_START.variable, "2")
    config = on_actors(small(llama_folder), 2, resources={"rollout_cpus": 16})
    with pytest.raises(ClusterError) as caught:
        run(config, tmp_path / "run")
    assert "the run needs 32 CPUs, the cluster has 8 CPUs, of which" in str(caught.value)
    assert "Ask for less (cluster.rollout_actors," in str(caught.value)
    end = events(tmp_path / "run")[-1]
    assert (end.type, end.reason) == ("run_finished", "error")
    assert "the run needs 32 CPUs" in end.message


def test_actors_that_would_not_fit_the_memory_of_their_node_are_refused(llama_folder, tmp_path, monkeypatch):
    monkeypatch.setattr("trainer.cluster.connection.available_memory", lambda: (1000, 2000))
    with pytest.raises(OutOfMemoryError, match=r"a rollout actor does not fit: .* for each of its 2 rollout actors"):
        run(on_actors(small(llama_folder), 2), tmp_path / "run")


@on_request
def test_groups_of_a_hanging_actor_are_played_again_by_another(llama_folder, tmp_path, monkeypatch):
    monkeypatch.setenv(timeouts.CLUSTER_ACTOR.variable, "15")
    config = small(llama_folder, iterations=2)
    run(config, tmp_path / "one")
    folder = tmp_path / "two"
    stopped = []

    def stop_once():
        if not stopped and count_turns(folder, 2):
            stopped.append(pids("RolloutActor")[0])
            os.kill(stopped[0], signal.SIGSTOP)
        return False

    assert run(on_actors(config, 2), folder, stop=stop_once).reason == "completed"
    (notice,) = events(folder, Notice)
    assert f"process {stopped[0]} was lost and is replaced: it finished no turn within" in notice.message
    check_order(folder)
    same_weights(weights(tmp_path / "one"), weights(folder))
