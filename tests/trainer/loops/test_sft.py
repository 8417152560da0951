"""SFT baseline: demonstrations, learning, stop and resume, checkpoints."""

import math
from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM

from tests.tiers import nightly_but
from tests.trainer import tiny
from tests.trainer.loops.test_train import events, numbers, run, same_weights, weights
from trainer.config.run import PolicyConfig, RunConfig
from trainer.imitation.demonstration_files import NoSolverError
from trainer.imitation.demonstrations import Demonstration
from trainer.journal.events import Metrics
from trainer.journal.protocol import ADAPTER_FOLDER, JOURNAL_FILE
from trainer.learner.groups.imitator import Imitator
from trainer.loops import run_factory, sft
from trainer.loops.stages import checkpoints, imitation_stage
from trainer.loops.stages.imitation_stage import demonstrations, epoch_order, is_usable
from trainer.metrics.registry import get_spec
from trainer.policy.load import load
from trainer.rollout.environment_mix import interleave
from trainer.rollout.trajectory import Trajectory, collate

CONTEXT = 2048


def settings(folder, **sections):
    data = {
        "kind": "sft",
        "iterations": 5,
        "sft": {"demonstrations": 6, "batch": 4, "learning_rate": 2e-3},
        "lora": {"rank": 4, "alpha": 2},
        "evaluation": {"prompts": 2},
        "rollout": {"max_turns": 3, "max_response_tokens": 12},
    }
    return tiny.config(folder, **data | sections)


def imitate(config, folder, **extra):
    assert run_factory.get_loop(config) is sft.sft
    return run_factory.run(config, folder, folder / "cache", **extra)


@pytest.fixture(scope="module")
def whole(pocket_folder, tmp_path_factory):
    config = settings(pocket_folder)
    folder = tmp_path_factory.mktemp("sft")
    return config, folder, imitate(config, folder)


def shown(config, chat, number):
    return list(islice(demonstrations(config, chat, CONTEXT), number))


def test_a_run_learns_measures_evaluates_and_ends_with_a_checkpoint(whole):
    _, folder, end = whole
    assert (end.reason, end.iteration) == ("completed", 5)
    learnt = {event.iteration: event.values for event in events(folder, Metrics) if "sft/loss" in event.values}
    assert list(learnt) == [1, 2, 3, 4, 5]
    assert learnt[5]["sft/loss"] < learnt[1]["sft/loss"]
    held_out = {
        e.iteration: e.values["sft/heldout_loss"] for e in events(folder, Metrics) if "sft/heldout_loss" in e.values
    }
    assert list(held_out) == [0, 2, 4, 5], "before, after each pass of two steps, and at the end"
    assert held_out[5] < held_out[0]
    assert [event.iteration for event in events(folder) if event.type == "evaluation"] == [0, 5]
    for event in events(folder, Metrics):
        for name, value in event.values.items():
            get_spec(name)
            assert math.isfinite(value)
    assert AutoModelForCausalLM.from_pretrained(checkpoints.get_path(folder, 5))


@pytest.mark.parametrize("after", nightly_but([0, 1, 3], [1]))
def test_a_run_stopped_between_steps_equals_an_uninterrupted_one(whole, tmp_path, after):
    config, unbroken, _ = whole
    journal = tmp_path / JOURNAL_FILE
    end = imitate(config, tmp_path, stop=lambda: journal.read_bytes().count(b'"sft/loss"') > after)
    assert (end.reason, end.iteration) == ("interrupted", after + 1)
    assert imitate(config, tmp_path).reason == "completed"
    assert numbers(tmp_path) == numbers(unbroken)
    same_weights(weights(tmp_path), weights(unbroken))


def test_a_run_stopped_during_solver_play_loses_nothing(pocket_folder, tmp_path):
    journal = tmp_path / JOURNAL_FILE
    end = imitate(settings(pocket_folder), tmp_path, stop=lambda: b'"demonstrations"' in journal.read_bytes())
    assert (end.reason, end.message) == ("interrupted", "Stopped while preparing; nothing was lost.")
    assert not checkpoints.checkpoint_iterations(tmp_path)


def test_all_weights_can_be_trained_as_well(pocket_folder, tmp_path):
    end = imitate(settings(pocket_folder, lora={"rank": 0}, iterations=1, evaluation={"prompts": 0}), tmp_path)
    assert end.reason == "completed"
    assert not (checkpoints.get_path(tmp_path, 1) / ADAPTER_FOLDER).exists()


def test_an_sft_policy_can_be_trained_further_by_starpo(whole, tmp_path):
    _, folder, _ = whole
    end = run(tiny.config(folder, iterations=1, evaluation={"prompts": 0}), tmp_path)
    assert end.reason == "completed"
    assert checkpoints.load_progress(tmp_path, 1).base == str(checkpoints.get_path(folder, 5))


def test_every_demonstration_is_used_once_per_epoch(whole, monkeypatch):
    config, folder, _ = whole
    seen = []
    monkeypatch.setattr(
        imitation_stage, "collate", lambda played, pad: seen.append([p.id for p in played]) or collate(played, pad)
    )
    monkeypatch.setattr(Imitator, "imitate", lambda self, batch, lr_factor: {})
    run_factory.run(config.model_copy(update={"iterations": 9}), folder / "again", folder / "cache")
    steps = [names for names in seen if len(names) in (4, 2)][1:]
    held_out = set(seen[0])
    assert [len(names) for names in steps] == [4, 2] * 4 + [4]
    for epoch in range(4):
        names = steps[2 * epoch] + steps[2 * epoch + 1]
        assert len(set(names)) == 6
        assert not set(names) & held_out
    assert steps[0] != steps[2]


def test_demonstrations_are_successful_solver_play(chat):
    played = shown(RunConfig(), chat, 5)
    assert all(trajectory.success and trajectory.turns for trajectory in played)
    assert all(turn.format_valid for trajectory in played for turn in trajectory.turns)


def test_more_demonstrations_extend_the_first_ones(chat):
    few, many = shown(RunConfig(), chat, 2), shown(RunConfig(), chat, 4)
    assert [trajectory.ids for trajectory in few] == [trajectory.ids for trajectory in many[:2]]
    assert len({trajectory.id for trajectory in many}) == 4
    other = shown(RunConfig(seed=1), chat, 2)
    assert [trajectory.ids for trajectory in few] != [trajectory.ids for trajectory in other]


def test_only_short_successful_demonstrations_are_used(chat, monkeypatch):
    (first,) = shown(RunConfig(), chat, 1)
    distance = first.turns[0].hint.distance
    demonstration = Demonstration(first, frozenset({0}))
    monkeypatch.setattr(imitation_stage, "MAX_SOLUTION_LENGTH", distance)
    assert is_usable(demonstration)
    first.success = False
    assert not is_usable(demonstration)
    first.success = True
    monkeypatch.setattr(imitation_stage, "MAX_SOLUTION_LENGTH", distance - 1)
    assert not is_usable(demonstration)
    assert not is_usable(Demonstration(Trajectory("t", 0, 0), frozenset()))


def test_a_mixed_run_uses_demonstrations_in_the_configured_shares(chat):
    run_config = RunConfig.model_validate(
        {"environment": {"name": "Bandit", "mix": [{"name": "Sokoban", "share": 0.5}]}}
    )
    played = shown(run_config, chat, 12)
    assert [trajectory.turns[0].board.kind for trajectory in played] == ["arms", "grid"] * 6
    assert [trajectory.environment for trajectory in played] == [0, 1] * 6


@given(st.integers(0, 40), st.integers(1, 60), st.integers(1, 16), st.integers(0, 9))
def test_every_batch_of_an_epoch_has_the_shares_of_the_mixture(held_out, number, batch, seed):
    shares = [0.5, 0.3, 0.2]
    environments = np.array(list(islice(interleave(shares), held_out + number))[held_out:])
    order, other = (epoch_order(environments, torch.Generator().manual_seed(own)) for own in (seed, seed + 1))
    assert sorted(order) == list(range(number)), "each once"
    for start in range(0, number, batch):
        drawn = environments[order[start : start + batch]]
        assert all(abs((drawn == task).sum() - share * len(drawn)) < 2 for task, share in enumerate(shares))
    assert number < 30 or list(order) != list(other)


@pytest.mark.parametrize("mixed", [False, True])
def test_an_environment_without_demonstrations_is_named(chat, mixed, monkeypatch):
    monkeypatch.setattr(imitation_stage, "MAX_SOLUTION_LENGTH", 1)
    unsolved = {"name": "Sokoban", "settings": {"min_length": 4}}
    environment = {"name": "Bandit", "mix": [unsolved | {"share": 0.2}]} if mixed else unsolved
    config = RunConfig.model_validate({"environment": environment})
    with pytest.raises(NoSolverError, match="Sokoban gives too few demonstrations: 0 of 101 starts"):
        shown(config, chat, 5)


def test_the_loss_covers_responses_at_any_micro_batch_size(pocket_folder, chat):
    """By hand: the mean over response tokens of −log p, from whole logits."""
    policy = load(pocket_folder, PolicyConfig())
    batch = collate(shown(RunConfig(), chat, 3), policy.pad_id)
    with torch.no_grad():
        logprobs = torch.log_softmax(policy.model(input_ids=batch.ids).logits[:, :-1].float(), -1)
    own = logprobs.gather(-1, batch.ids[:, 1:, None])[..., 0]
    chosen = batch.mask[:, 1:]
    expected = -float(own[chosen].mean())
    right = (logprobs.argmax(-1) == batch.ids[:, 1:])[chosen].float().mean()
    for tokens in (64, 100_000):
        learner = Imitator(settings(pocket_folder, optimizer={"micro_batch_tokens": tokens}, lora={"rank": 0}), policy)
        measured = learner.measure(batch)
        assert measured["sft/heldout_loss"] == pytest.approx(expected, rel=1e-4)
        assert measured["sft/heldout_accuracy"] == pytest.approx(float(right))
    assert learner.imitate(batch)["sft/loss"] == pytest.approx(expected, rel=1e-4)
    assert learner.measure(batch)["sft/heldout_loss"] < expected


def test_the_baselines_own_learning_rate_is_used_and_no_critic_is_made(pocket_folder, policy):
    learner = Imitator(settings(pocket_folder, algorithm={"estimator": "gae"}), policy).learner
    assert learner.critic is None
    assert [group["lr"] for group in learner.trainable["policy"].optimizer.param_groups] == [2e-3]
