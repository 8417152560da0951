"""MT-GRPO and turn-level GAE against loops over turns, written from their definitions."""

from __future__ import annotations

import math
from statistics import fmean, stdev

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tests.trainer.random_batches import Dialogues, dialogues
from trainer.algorithms.advantages import EPSILON, gae, grpo
from trainer.algorithms.turn_credit import mt_grpo, turn_gae, turn_returns


def turns_of(d: Dialogues, row: int) -> dict[int, list[int]]:
    """Turn of a row → columns of its policy tokens."""
    columns: dict[int, list[int]] = {}
    for column, turn in enumerate(d.turns[row].tolist()):
        if d.mask[row, column]:
            columns.setdefault(turn, []).append(column)
    return columns


def returns_of(d: Dialogues, rewards: Tensor, row: int, gamma: float) -> dict[int, float]:
    """Turn → discounted reward from it on."""
    paid = {turn: sum(float(rewards[row, c]) for c in columns) for turn, columns in turns_of(d, row).items()}
    return {turn: sum(gamma ** (t - turn) * r for t, r in paid.items() if t >= turn) for turn in paid}


@given(d=dialogues(rows=6), gamma=st.sampled_from([1.0, 0.9]), divide=st.booleans())
def test_mt_grpo_is_the_return_from_a_turn_on_against_the_group(d: Dialogues, gamma: float, divide: bool) -> None:
    rewards, group = d.numbers(1), d.groups(2)
    found = mt_grpo(d.rubbish(rewards, math.nan), group, d.turns, d.mask, gamma=gamma, normalize_by_std=divide)
    assert not found[~d.mask].any()
    for row in range(len(rewards)):
        own = returns_of(d, rewards, row, gamma)
        members = [m for m in range(len(rewards)) if group[m] == group[row]]
        for turn, columns in turns_of(d, row).items():
            compared = [returns_of(d, rewards, member, gamma).get(turn, 0.0) for member in members]
            expected = own[turn] - (fmean(compared) if len(members) > 1 else 0.0)
            if divide:
                expected /= (stdev(compared) if len(members) > 1 else 1.0) + EPSILON
            assert found[row, columns].tolist() == pytest.approx([expected] * len(columns), rel=1e-3, abs=1e-4)


@given(d=dialogues(rows=6), lam=st.sampled_from([1.0, 0.8]))
def test_turn_gae_takes_turns_for_actions(d: Dialogues, lam: float) -> None:
    rewards, values, gamma = d.numbers(1), d.numbers(2), 0.9
    advantages, returns = turn_gae(
        d.rubbish(rewards, math.nan), d.rubbish(values, math.nan), d.turns, d.mask, gamma=gamma, lam=lam
    )
    assert not advantages[~d.mask].any()
    for row in range(len(rewards)):
        turns = list(turns_of(d, row).items())
        running, following = 0.0, 0.0
        for _, columns in reversed(turns):
            value = float(values[row, columns[0]])
            paid = sum(float(rewards[row, column]) for column in columns)
            running = paid + gamma * following - value + gamma * lam * running
            following = value
            assert advantages[row, columns].tolist() == pytest.approx([running] * len(columns), rel=1e-4, abs=1e-5)
            assert returns[row, columns].tolist() == pytest.approx([running + value] * len(columns), rel=1e-4, abs=1e-5)


def test_with_one_turn_they_are_grpo_and_gae_of_one_action() -> None:
    rewards, values = torch.tensor([[0.0, 1.0], [0.0, 3.0]]), torch.tensor([[0.5, 9.0], [1.0, 9.0]])
    mask, turns, group = torch.ones(2, 2, dtype=torch.bool), torch.zeros(2, 2, dtype=torch.long), torch.zeros(2)
    found = mt_grpo(rewards, group, turns, mask, gamma=0.9, normalize_by_std=True)
    assert torch.equal(found, grpo(rewards, group, mask, True))
    advantages, _ = turn_gae(rewards, values, turns, mask, gamma=0.9, lam=0.5)
    alone, _ = gae(rewards.sum(1, keepdim=True), values[:, :1], mask[:, :1], 0.9, 0.5)
    assert torch.equal(advantages[:, :1], alone)


def test_turn_values_are_discounted_returns_by_turn() -> None:
    rewards = torch.tensor([[1.0, 0.0, 4.0], [0.0, 2.0, 0.0]])
    turns = torch.arange(3).expand(2, 3)
    found = turn_returns(rewards, turns, torch.ones(2, 3, dtype=torch.bool), 0.5)
    assert found.tolist() == [[2.0, 2.0, 4.0], [1.0, 2.0, 0.0]]
