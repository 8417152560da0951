"""Learners on Ray actors: the same steps as in one process, sharded weights, checkpoints, lost learners."""

import os
import signal

import pytest
import torch

from tests.trainer import tiny
from tests.trainer.cluster.journals import check_order, facts
from tests.trainer.cluster.processes import listening_addresses, pids
from tests.trainer.cluster.selection import on_request
from tests.trainer.loops.test_train import count_turns, dialogues, events, numbers, run, same_weights, weights
from tests.trainer.policy.architectures import ARCHITECTURES
from tests.trainer.steps import variants
from trainer import timeouts
from trainer.cluster.errors import LearnerLostError
from trainer.config.run import RunConfig
from trainer.journal.events import Metrics, Notice, RunStarted
from trainer.policy.load import ModelError

pytestmark = pytest.mark.usefixtures("cluster")
REINFORCE = {"estimator": "reinforce_plus_plus", "drop_zero_std": False, "gamma": 0.9}
"""Equal rewards give a gradient, too."""


def on_cluster(config: RunConfig, learners: int, actors: int, **sections: object) -> RunConfig:
    data = config.model_dump()
    data["cluster"] |= {"learners": learners, "rollout_actors": actors}
    return RunConfig.model_validate(data | sections)


def small(folder, **sections):
    parts = {
        "rollout": {"groups": 3, "groups_per_session": 1},
        "optimizer": {"mini_batch_trajectories": 3, "micro_batch_tokens": 1024, "critic_lr": 1e-4},
        "algorithm": REINFORCE,
        "evaluation": {"prompts": 3},
    }
    return tiny.config(folder, **(parts | sections))


def responses(folder):
    """Tokens of a journal, without the last bits of their probabilities."""
    return {turn: spoken[:2] for turn, spoken in dialogues(folder).items()}


def near(some, others):
    assert some.keys() == others.keys()
    return max(float((some[name] - others[name]).abs().max()) for name in some)


def gradient_norms(folder):
    return [
        event.values[name]
        for event in events(folder, Metrics)
        for name in ("policy/grad_norm", "value/grad_norm")
        if name in event.values
    ]


def test_one_learner_with_rollouts_in_the_driver_is_bit_for_bit_the_same(llama_folder, tmp_path):
    config = small(llama_folder, algorithm={"estimator": "gae", "kl_coef": 0.01, "gamma": 0.9})
    run(config, tmp_path / "one")
    run(on_cluster(config, learners=1, actors=0), tmp_path / "apart")
    same_weights(weights(tmp_path / "one"), weights(tmp_path / "apart"))
    assert facts(tmp_path / "one") == facts(tmp_path / "apart")


@on_request
@pytest.mark.parametrize("estimator, sharding", [("reinforce_plus_plus", "none"), ("gae", "full")])
def test_two_learners_and_two_rollout_actors_take_the_steps_of_one_process(llama_folder, tmp_path, estimator, sharding):
    config = small(llama_folder, algorithm=REINFORCE | {"estimator": estimator}, parallel={"sharding": sharding})
    run(config, tmp_path / "one")
    bound: set[str] = set()

    def look():
        if not bound and count_turns(tmp_path / "two", 1):
            bound.update(listening_addresses())
        return False

    run(on_cluster(config, learners=2, actors=2), tmp_path / "two", stop=look)
    assert bound <= {"127.0.0.1", "::1"}, "no port is open to the network"
    assert responses(tmp_path / "two") == responses(tmp_path / "one")
    assert gradient_norms(tmp_path / "two") == pytest.approx(gradient_norms(tmp_path / "one"), rel=1e-5)
    assert near(weights(tmp_path / "two"), weights(tmp_path / "one")) < 1e-5
    check_order(tmp_path / "two")


@on_request
def test_a_run_stops_and_resumes_with_another_number_of_learners(llama_folder, tmp_path):
    config = small(llama_folder, algorithm={"estimator": "gae", "gamma": 0.9}, iterations=3)
    run(config, tmp_path / "one")
    folder = tmp_path / "changing"
    end = run(on_cluster(config, 2, 1), folder, stop=lambda: count_turns(folder, 2) > 0)
    assert (end.reason, end.iteration) == ("interrupted", 1)
    run(config, folder)
    assert [event.from_iteration for event in events(folder, RunStarted)] == [0, 1]
    assert responses(folder) == responses(tmp_path / "one")
    assert near(weights(folder), weights(tmp_path / "one")) < 1e-4


@on_request
def test_a_killed_learner_is_replaced_and_the_run_continues_from_its_checkpoint(llama_folder, tmp_path):
    config = on_cluster(small(llama_folder, iterations=3), learners=2, actors=1)
    run(config, tmp_path / "unbroken")
    folder, killed = tmp_path / "broken", []

    def kill_once():
        if not killed and count_turns(folder, 2):
            killed.append(pids("LearnerActor")[1])
            os.kill(killed[0], signal.SIGKILL)
        return False

    assert run(config, folder, stop=kill_once).reason == "completed"
    (notice,) = (event for event in events(folder, Notice) if "learner" in event.message)
    assert "was lost" in notice.message
    assert "continues from the checkpoint of iteration 1" in notice.message
    assert [event.from_iteration for event in events(folder, RunStarted)] == [0, 1]
    same_weights(weights(folder), weights(tmp_path / "unbroken"))
    assert numbers(folder) == numbers(tmp_path / "unbroken")
    check_order(folder)


@on_request
def test_learners_that_die_again_and_again_end_the_run_with_the_reason(llama_folder, tmp_path):
    folder, killed = tmp_path / "run", []
    config = on_cluster(small(llama_folder, evaluation={"prompts": 0}), learners=1, actors=1)

    def kill_each():
        for pid in pids("LearnerActor"):
            if pid not in killed and count_turns(folder, 1) > len(killed):
                killed.append(pid)
                os.kill(pid, signal.SIGKILL)
        return False

    with pytest.raises(LearnerLostError, match=r"learner 1.* was lost"):
        run(config, folder, stop=kill_each)
    assert len(killed) == 4
    end = events(folder)[-1]
    assert (end.type, end.reason) == ("run_finished", "error")


@on_request
def test_settings_that_cannot_be_sharded_are_refused_with_alternatives(llama_folder, tmp_path):
    config = small(llama_folder, parallel={"sharding": "full"}, lora={"rank": 4, "alpha": 8})
    with pytest.raises(ModelError, match=r"Set parallel\.sharding to none"):
        run(on_cluster(config, learners=2, actors=0), tmp_path / "run")


@on_request
def test_the_variants_of_the_update_reach_learners(tmp_path):
    windowed = next(one for one in ARCHITECTURES if one.name == "Mistral 0.1 (window)")
    config = small(windowed.save(tmp_path / "model", tiny.styles()["chatml"]))
    with variants("packed"), pytest.raises(ModelError, match="take packed out of ECHOSCOPE_UPDATE_VARIANTS"):
        run(on_cluster(config, learners=1, actors=0), tmp_path / "run")


@on_request
def test_demonstrations_are_imitated_by_two_learners_as_by_one_process(llama_folder, tmp_path):
    config = small(
        llama_folder,
        kind="sft",
        sft={"demonstrations": 6, "batch": 3},
        evaluation={"prompts": 2},
    )
    run(config, tmp_path / "one")
    run(on_cluster(config, learners=2, actors=1), tmp_path / "two")
    assert near(weights(tmp_path / "two"), weights(tmp_path / "one")) < 1e-5
    losses = [
        [event.values["sft/loss"] for event in events(tmp_path / name, Metrics) if "sft/loss" in event.values]
        for name in ("one", "two")
    ]
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    assert torch.isfinite(torch.tensor(losses)).all()


@on_request
def test_a_hanging_learner_is_replaced_like_a_lost_one(llama_folder, tmp_path, monkeypatch):
    monkeypatch.setenv(timeouts.CLUSTER_ACTOR.variable, "20")
    config = small(llama_folder, iterations=2)
    run(config, tmp_path / "one")
    folder, stopped = tmp_path / "two", []
    data = on_cluster(config, learners=1, actors=0)

    def stop_once():
        if not stopped and count_turns(folder, 2):
            stopped.append(pids("LearnerActor")[0])
            os.kill(stopped[0], signal.SIGSTOP)
        return False

    assert run(data, folder, stop=stop_once).reason == "completed"
    (notice,) = (event for event in events(folder, Notice) if "learner" in event.message)
    assert "hangs: no progress within ECHOSCOPE_TIMEOUT_CLUSTER_ACTOR = 20 seconds" in notice.message
    same_weights(weights(folder), weights(tmp_path / "one"))
