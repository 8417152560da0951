"""Tokens computed from a checkpoint afterwards are those that the run recorded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.trainer import tiny
from tests.trainer.loops.test_train import events, run
from trainer.journal import token_arrays
from trainer.journal.events import GroupStarted, TrajectoryTokens, Turn
from trainer.journal.protocol import LEARNER_STATE
from trainer.loops.compute_tokens import compute_tokens
from trainer.loops.recorded_attempts import RecordingError
from trainer.loops.stages import checkpoints
from trainer.paths import POCKET_CHECKPOINT

SETTINGS = {
    "iterations": 3,
    "rollout": {"group_size": 4, "max_turns": 3, "temperature": 0.8},
    "algorithm": {
        "estimator": "reinforce_plus_plus",
        "group_filter": "std",
        "group_filter_keep": 0.5,
        "drop_zero_std": False,
    },
    "optimizer": {"policy_lr": 1e-4, "lr_warmup": 0, "mini_batch_trajectories": 4},  # one step: of the same weights
    "evaluation": {"prompts": 2, "temperature": 0.5, "every": 1},
    "checkpoint": {"every": 1, "keep": 2},
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """A run that keeps the checkpoints of iterations 2 and 3."""
    folder = tmp_path_factory.mktemp("computed")
    run(tiny.config(POCKET_CHECKPOINT, **SETTINGS), folder)
    return folder


def recorded_of(folder: Path, weights: int) -> dict[str, token_arrays.TokenArrays]:
    """The recorded tokens of the attempts that were sampled after that many iterations."""
    played = {
        name
        for group in events(folder, GroupStarted)
        if group.iteration - (group.split == "train") == weights
        for name in group.members
    }
    return {
        event.trajectory: token_arrays.unpack(event.data)
        for event in events(folder, TrajectoryTokens)
        if event.trajectory in played
    }


def compare(folder: Path, weights: int) -> set[str]:
    """Compare all attempts that these weights sampled. Returns those whose text has the ids that were sampled."""
    recorded, same = recorded_of(folder, weights), set()
    assert recorded
    for name, arrays in recorded.items():
        computed = compute_tokens(folder, name)
        assert (computed.checkpoint, computed.sampled_after) == (weights, weights)
        found = computed.as_arrays(len(arrays.turns))
        assert found.context is not None
        assert arrays.context is not None
        if not np.array_equal(found.ids, arrays.ids):
            continue  # the policy sampled other ids for the same text
        same.add(name)
        assert found.turns == arrays.turns
        assert found.context.segments == arrays.context.segments, "kinds, turns, what was sampled and in the loss"
        for part in ("ids", "lengths"):
            assert np.array_equal(getattr(found.context, part), getattr(arrays.context, part))
        differences = 0 if arrays.updates is None else arrays.updates.differences
        np.testing.assert_allclose(found.logprobs, arrays.logprobs + differences, atol=4e-3, rtol=2e-3)
        np.testing.assert_allclose(found.entropies, arrays.entropies, atol=4e-3, rtol=2e-3)
        restarts = sum(segment.restarts for segment in arrays.context.segments)
        assert np.isnan(found.context.logprobs).sum() == 1 + restarts
        texts = "".join(computed.texts)
        turns = [event for event in events(folder, Turn) if event.trajectory == name]
        assert all(turn.response in texts and turn.state in texts for turn in turns)
    return same


@pytest.mark.parametrize("weights", [0, 2, 3])
def test_computed_tokens_are_the_recorded_ones(finished: Path, weights: int) -> None:
    same = compare(finished, weights)
    assert len(same) > len(recorded_of(finished, weights)) / 2
    if weights == 2:
        learned = {name for name, arrays in recorded_of(finished, weights).items() if arrays.updates is not None}
        assert learned & same, "an update used some of them"
        assert {name[0] for name in same - learned} == {"e", "0"}, "and not others, of evaluations and of training"


def test_windowed_prompts_adapters_and_temperature_zero(tmp_path: Path) -> None:
    changes = {
        "iterations": 2,
        "rollout": SETTINGS["rollout"] | {"context_turns": 1, "system": "Mind the boxes."},
        "lora": {"rank": 2, "alpha": 4},
        "evaluation": {"prompts": 2, "temperature": 0, "every": 1},
    }
    run(tiny.config(POCKET_CHECKPOINT, **SETTINGS | changes), tmp_path)
    assert compare(tmp_path, 1) | compare(tmp_path, 2)


def test_the_nearest_kept_checkpoint_is_used_and_named(finished: Path) -> None:
    (name, *_), (later, *_) = recorded_of(finished, 1), recorded_of(finished, 2)
    computed = compute_tokens(finished, name)
    assert (computed.checkpoint, computed.sampled_after) == (2, 1)
    other = compute_tokens(finished, later, checkpoint=0)
    assert (other.checkpoint, other.sampled_after) == (0, 2)
    assert other.logprobs != compute_tokens(finished, later).logprobs
    with pytest.raises(RecordingError, match=r"no checkpoint of iteration 1; there are 0, 2, 3"):
        compute_tokens(finished, name, checkpoint=1)
    with pytest.raises(RecordingError, match="no attempt 'e9'"):
        compute_tokens(finished, "e9")
    with pytest.raises(RecordingError, match="no journal"):
        compute_tokens(finished / "nowhere", name)


def test_only_the_files_of_the_model_are_needed_and_damage_to_them_is_said(finished: Path) -> None:
    name = next(iter(recorded_of(finished, 3)))
    checkpoint = checkpoints.get_path(finished, 3)
    (checkpoint / LEARNER_STATE).unlink()
    assert compute_tokens(finished, name).checkpoint == 3
    weights = checkpoint / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"!")
    with pytest.raises(RecordingError, match=r"damaged \(model.safetensors changed"):
        compute_tokens(finished, name)
