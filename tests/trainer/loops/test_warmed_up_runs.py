"""Training runs that begin with steps on demonstrations: two stages in one run, resumable anywhere."""

import shutil

import pytest
import torch
from safetensors.torch import load_file

from tests.tiers import nightly_but
from tests.trainer import tiny
from tests.trainer.loops.test_resume import StopCounter, history, play, same_files
from tests.trainer.loops.test_train import events
from trainer.config.run import RunConfig
from trainer.imitation.warmup import learning_rate
from trainer.journal.events import CheckpointSaved, Evaluation, Metrics, Phase, RunStarted
from trainer.journal.protocol import JOURNAL_FILE, WARMED_UP_FOLDER
from trainer.loops.replay_update import replay_update
from trainer.loops.stages import checkpoints
from trainer.policy.load import ModelError

STEPS = 5
SETTINGS = {
    "iterations": 2,
    "environment": {"name": "BanditRev"},
    "rollout": {"groups": 2, "group_size": 4, "max_turns": 1, "max_actions": 1, "max_actions_per_turn": 1},
    "sft": {
        "warmup_steps": STEPS,
        "demonstrations": 6,
        "batch": 4,
        "learning_rate": 3e-3,
        "mix": [{"name": "Bandit", "share": 0.5}],
    },
    "algorithm": {"estimator": "grpo", "kl_coef": 0.01, "kl_penalty": "loss_k1"},
    "rewards": {"terms": {"thought_present": 0.5, "repeats": -0.3}},
    "evaluation": {"prompts": 2, "every": 2},
    "checkpoint": {"every": 1, "keep": 3},
}
VARIANTS = {"all weights": {}, "LoRA": {"lora": {"rank": 2, "alpha": 4}}}


@pytest.fixture(scope="module", params=nightly_but(VARIANTS, ["all weights"]), ids=lambda name: name.replace(" ", "-"))
def whole(request, pocket_folder, tmp_path_factory):
    """The settings of a run, the folder of its uninterrupted run, and the number of its stop checks."""
    config, counter = tiny.config(pocket_folder, **SETTINGS, **VARIANTS[request.param]), StopCounter()
    folder = tmp_path_factory.mktemp("warmed-up")
    assert play(config, folder, counter).reason == "completed"
    return config, folder, counter.count


def test_a_run_imitates_up_to_iteration_0_and_trains_from_there(whole):
    _, folder, _ = whole
    metrics = events(folder, Metrics)
    imitated = {event.iteration: event.values for event in metrics if "sft/loss" in event.values}
    assert list(imitated) == [-4, -3, -2, -1, 0]
    assert imitated[0]["sft/loss"] < imitated[-4]["sft/loss"]
    rates = [values["sft/learning_rate"] for values in imitated.values()]
    assert rates == pytest.approx([learning_rate(step, STEPS, 3e-3) for step in range(STEPS)])
    assert [event.iteration for event in metrics if "sft/heldout_loss" in event.values] == [-5, -3, -1, 0]
    assert [event.iteration for event in metrics if "reward/mean" in event.values] == [1, 2]
    assert [event.iteration for event in events(folder, Evaluation)] == [-5, -4, -2, 0, 2]
    assert [event.from_iteration for event in events(folder, RunStarted)] == [-5]
    steps = [event for event in events(folder, Phase) if event.phase == "warmup" and event.unit == "steps"]
    assert {(event.done, event.total, event.iteration) for event in steps} == {(n, STEPS, 0) for n in range(STEPS)}
    assert steps[0].eta_seconds is None, "nothing was measured"
    known = [event for event in events(folder, Phase) if event.time >= steps[-1].time]
    assert all(0 <= event.eta_low_seconds <= event.eta_seconds <= event.eta_high_seconds for event in known)
    end = events(folder)[-1]
    assert {"success_before", "success_after_warmup", "success_after"} <= set(end.summary)


def test_training_starts_from_the_warmed_up_policy_without_its_moments_and_keeps_it_as_reference(whole, tmp_path):
    """As if the warmed-up policy were the model of a run without warm-up: the same updates, to the last bit."""
    config, folder, _ = whole
    alone = config.model_copy(
        update={
            "policy": config.policy.model_copy(update={"model": str(folder / WARMED_UP_FOLDER)}),
            "sft": config.sft.model_copy(update={"warmup_steps": 0}),
        }
    )
    play(alone, tmp_path)
    assert [event.iteration for event in events(tmp_path, Metrics) if "policy/loss" in event.values]
    last = [checkpoints.get_path(run, 2) / "model.safetensors" for run in (folder, tmp_path)]
    one, other = map(load_file, last)
    assert all(torch.equal(one[name], other[name]) for name in one)
    before = load_file(folder / WARMED_UP_FOLDER / "model.safetensors")
    assert any(not torch.equal(one[name], before[name]) for name in one), "training moved the weights"
    assert not (folder / WARMED_UP_FOLDER / "learner.pt").exists()


def test_a_run_stopped_after_the_warm_up_equals_an_uninterrupted_one(whole, tmp_path):
    config, unbroken, checks = whole
    assert play(config, tmp_path, StopCounter(0.9 * checks)).reason == "interrupted"
    assert play(config, tmp_path).reason == "completed"
    assert history(tmp_path) == history(unbroken)
    same_files(tmp_path, unbroken)


def test_a_run_stopped_within_the_warm_up_continues_there(whole, tmp_path):
    after = 3
    config, unbroken, _ = whole
    journal = tmp_path / JOURNAL_FILE
    end = play(config, tmp_path, lambda: journal.read_bytes().count(b'"sft/loss"') >= after)
    assert end.message == f"Stopped after step {after} of 5 of the warm-up; resume continues with the next."
    assert not events(tmp_path, CheckpointSaved), "nothing that a user could choose"
    play(config, tmp_path)
    assert [event.from_iteration for event in events(tmp_path, RunStarted)] == [-5, after - 5]
    assert history(tmp_path) == history(unbroken)
    same_files(tmp_path, unbroken)
    assert min(checkpoints.checkpoint_iterations(tmp_path)) >= 0


def test_a_lost_warmed_up_policy_is_reported(whole, tmp_path):
    config, folder, _ = whole
    shutil.copytree(folder / "checkpoints" / "000000", tmp_path / "checkpoints" / "000000")
    with pytest.raises(ModelError, match="from which the training of this run starts"):
        play(config, tmp_path)


def test_demonstrations_share_the_environments_of_the_run_and_of_the_mix():
    config = RunConfig.model_validate(
        {
            "environment": {"name": "BanditRev", "mix": [{"name": "Sokoban", "share": 0.25}]},
            "sft": {"mix": [{"name": "Bandit", "share": 0.4}]},
        }
    )
    mix = config.for_demonstrations().environment.mix
    assert [(entry.name, pytest.approx(entry.share)) for entry in mix] == [("Sokoban", 0.15), ("Bandit", 0.4)]
    for wrong, message in (
        ([{"name": "Sokoban", "share": 0.4}], "sft.mix lists Sokoban, which the run trains in"),
        ([{"name": "Bandit", "share": 0.4}] * 2, "sft.mix lists Bandit twice"),
        ([{"name": "Bandit", "share": 0.5}, {"name": "FrozenLake", "share": 0.5}], "sft.mix leaves no share"),
    ):
        with pytest.raises(ValueError, match=message):
            RunConfig.model_validate({"environment": config.environment.model_dump(), "sft": {"mix": wrong}})


def test_an_update_of_a_warmed_up_run_is_replayed_from_its_own_reference(whole):
    _, folder, _ = whole
    learnt = [event.iteration for event in events(folder, Metrics) if "policy/loss" in event.values]
    replay = replay_update(folder, learnt[0])
    for name in ("policy/loss", "policy/kl_to_initial"):
        assert replay.replayed[name] == pytest.approx(replay.recorded[name], rel=1e-2, abs=1e-6)
