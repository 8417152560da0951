from __future__ import annotations

import pytest
import torch
from hypothesis import given
from torch import Tensor

from tests.trainer.random_batches import Dialogues, dialogues
from trainer.algorithms.advantages import grpo
from trainer.algorithms.gigpo import gigpo


def turn_table(rows: list[list[float]]) -> tuple[Tensor, Tensor, Tensor]:
    """Rewards, turn ids and mask of trajectories with one sampled token a turn."""
    rewards = torch.tensor(rows)
    turns = torch.arange(rewards.shape[1]).expand(rewards.shape)
    return rewards, turns, torch.ones_like(rewards, dtype=torch.bool)


def test_turns_from_the_same_state_are_compared_across_turn_numbers() -> None:
    rewards, turns, mask = turn_table([[0.0, 10.0], [0.0, 0.0], [0.0, 2.0]])
    group = torch.zeros(3, dtype=torch.long)
    anchors = torch.tensor([[0, 1], [0, 0], [0, 2]])  # the second trajectory stays in its first state
    found = gigpo(rewards, group, turns, anchors, mask, gamma=1.0, normalize_by_std=False)
    local = found - grpo(rewards, group, mask, False)
    mean = (10.0 + 0.0 + 0.0 + 2.0) / 4
    assert local[:, 0].tolist() == pytest.approx([10 - mean, -mean, 2 - mean])
    assert local[1, 1].item() == pytest.approx(-mean)
    assert local[0, 1] == local[2, 1] == 0, "states met once are compared with nothing"


def test_states_of_different_groups_are_never_compared() -> None:
    rewards, turns, mask = turn_table([[1.0], [3.0], [100.0], [300.0]])
    group, anchors = torch.tensor([0, 0, 1, 1]), torch.zeros(4, 1, dtype=torch.long)
    found = gigpo(rewards, group, turns, anchors, mask, gamma=1.0, normalize_by_std=False)
    assert found[:, 0].tolist() == pytest.approx([-2.0, 2.0, -200.0, 200.0])


@given(d=dialogues())
def test_states_met_once_leave_grpo_and_masked_tokens_get_zero(d: Dialogues) -> None:
    rewards, group = d.numbers(1), d.groups(2)
    same = torch.zeros(len(rewards), int(d.turns.max()) + 1, dtype=torch.long)
    once = torch.arange(same.numel()).view(same.shape)
    settings = {"gamma": 0.95, "normalize_by_std": True}
    assert torch.equal(gigpo(rewards, group, d.turns, once, d.mask, **settings), grpo(rewards, group, d.mask, True))
    found = gigpo(d.rubbish(rewards, float("nan")), group, d.turns, same, d.mask, **settings)
    assert found.isfinite().all()
    assert not found[~d.mask].any()
