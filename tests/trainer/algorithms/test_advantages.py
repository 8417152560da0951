from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tests.trainer.random_batches import Dialogues, dialogues
from trainer.algorithms import advantages, estimators

RUBBISH = st.sampled_from([float("nan"), float("inf"), -1e30, 7.0])
SHARES = st.sampled_from([0.0, 0.5, 0.95, 1.0])


def estimate(name: str, d: Dialogues, rewards: Tensor, values: Tensor) -> list[Tensor]:
    """Result of the estimator, whitening included where it is part of it."""
    match name:
        case "gae":
            return list(advantages.gae(rewards, values, d.mask, 0.95, 0.9))
        case "bi_level_gae":
            return list(advantages.bi_level_gae(rewards, values, d.mask, d.turns, 0.95, 0.9, 0.8))
        case "grpo":
            return [advantages.grpo(rewards, d.groups(2), d.mask, True)]
        case "dr_grpo":
            return [advantages.grpo(rewards, d.groups(2), d.mask, False)]
        case "rloo":
            return [advantages.rloo(rewards, d.groups(2), d.mask)]
        case "reinforce_plus_plus":
            return list(advantages.reinforce_plus_plus(rewards, d.mask, 0.9))
        case "reinforce_plus_plus_verl":
            return list(advantages.reinforce_plus_plus_verl(rewards, d.mask, 0.9))
        case "reinforce_plus_plus_baseline":
            return [advantages.reinforce_plus_plus_baseline(rewards, d.groups(2), d.mask)]
    raise AssertionError(name)


ESTIMATORS = [
    "gae",
    "bi_level_gae",
    "grpo",
    "dr_grpo",
    "rloo",
    "reinforce_plus_plus",
    "reinforce_plus_plus_verl",
    "reinforce_plus_plus_baseline",
]


@pytest.mark.parametrize("name", ESTIMATORS)
@given(d=dialogues(), rubbish=RUBBISH)
def test_values_on_environment_tokens_have_no_effect(name: str, d: Dialogues, rubbish: float) -> None:
    rewards, values = d.numbers(1), d.numbers(2)
    clean = estimate(name, d, d.rubbish(rewards, 0.0), d.rubbish(values, 0.0))
    dirty = estimate(name, d, d.rubbish(rewards, rubbish), d.rubbish(values, rubbish))
    for one, other in zip(clean, dirty, strict=True):
        assert torch.equal(one, other)
        assert not one[~d.mask].any()
        assert one.isfinite().all()


@given(d=dialogues(), gamma=SHARES, lam=SHARES)
def test_gae_equals_gae_with_environment_tokens_removed(d: Dialogues, gamma: float, lam: float) -> None:
    rewards, values = d.numbers(1), d.numbers(2)
    found, returns = advantages.gae(rewards, values, d.mask, gamma, lam)
    for row in range(len(d.mask)):
        chosen = d.mask[row]
        r, v = rewards[row, chosen].tolist(), values[row, chosen].tolist()
        wanted = [0.0] * len(r)
        ahead = 0.0
        for t in reversed(range(len(r))):
            ahead = r[t] + gamma * (v[t + 1] if t + 1 < len(v) else 0.0) - v[t] + gamma * lam * ahead
            wanted[t] = ahead
        torch.testing.assert_close(found[row, chosen], torch.tensor(wanted), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(returns[row, chosen], torch.tensor(wanted) + torch.tensor(v), rtol=1e-4, atol=1e-5)


@given(d=dialogues())
def test_without_critic_and_discount_advantages_are_rewards_to_go(d: Dialogues) -> None:
    rewards = d.rubbish(d.numbers(1), 0.0)
    found, _ = advantages.gae(rewards, torch.zeros_like(rewards), d.mask, 1.0, 1.0)
    to_come = rewards.flip(1).cumsum(1).flip(1)
    torch.testing.assert_close(found, to_come * d.mask, rtol=1e-4, atol=1e-5)


@given(d=dialogues(), cut=st.integers(1, 5))
def test_padding_does_not_change_advantages(d: Dialogues, cut: int) -> None:
    rewards, values = d.numbers(1), d.numbers(2)
    padding = torch.zeros(len(d.mask), cut)
    wide = torch.cat([d.mask, padding.bool()], 1)
    found, _ = advantages.gae(rewards, values, d.mask, 0.95, 0.9)
    padded, _ = advantages.gae(torch.cat([rewards, padding], 1), torch.cat([values, padding], 1), wide, 0.95, 0.9)
    assert torch.equal(found, padded[:, : d.mask.shape[1]])


def test_a_turn_with_zero_reward_is_not_special() -> None:
    mask = torch.tensor([[1, 1, 0, 1, 1, 0, 1]])
    turns = torch.tensor([[0, 0, -1, 1, 1, -1, 2]])
    rewards = torch.tensor([[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 8.0]])
    found, _ = advantages.bi_level_gae(rewards, torch.zeros(1, 7), mask, turns, gamma=1.0, lam=1.0, turn_gamma=0.5)
    assert found.tolist() == [[2.0, 2.0, 0.0, 4.0, 4.0, 0.0, 8.0]]


def test_turns_without_rewards_have_zero_advantage() -> None:
    mask, turns = torch.ones(1, 4), torch.tensor([[0, 0, 1, 1]])
    found, returns = advantages.bi_level_gae(torch.zeros(1, 4), torch.zeros(1, 4), mask, turns, 1.0, 1.0, 0.95)
    assert not found.any()
    assert not returns.any()


@given(d=dialogues(), gamma=SHARES, lam=SHARES)
def test_bi_level_gae_of_a_single_turn_equals_gae(d: Dialogues, gamma: float, lam: float) -> None:
    """With one turn the turn level only replaces the last reward by itself."""
    rewards, values = d.numbers(1), d.numbers(2)
    found, returns = advantages.bi_level_gae(rewards, values, d.mask, torch.zeros_like(d.turns), gamma, lam, 0.3)
    plain, plain_returns = advantages.gae(rewards, values, d.mask, gamma, lam)
    torch.testing.assert_close(found, plain, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(returns, plain_returns, rtol=1e-4, atol=1e-5)


@given(d=dialogues())
def test_each_turn_ends_at_its_last_policy_token(d: Dialogues) -> None:
    ends = advantages.turn_ends(d.turns, d.mask)
    for row in range(len(d.mask)):
        wanted = {turn: column for column, turn in enumerate(d.turns[row].tolist()) if d.mask[row, column]}
        assert ends[row].nonzero().squeeze(1).tolist() == sorted(wanted.values())


@given(d=dialogues())
def test_whitened_values_have_zero_mean_and_unit_variance_over_the_mask(d: Dialogues) -> None:
    white = advantages.masked_whiten(5 + 3 * d.numbers(), d.mask)[d.mask]
    if len(white) >= 2:
        assert white.mean().abs() < 1e-4
        assert abs(float(white.var()) - 1) < 1e-3


def test_whitening_constant_or_single_values_gives_zeros() -> None:
    mask = torch.tensor([[True, True, True, False]])
    assert not advantages.masked_whiten(torch.full((1, 4), 0.1), mask)[mask].any()
    alone = torch.tensor([[False, True, False, False]])
    assert advantages.masked_whiten(torch.full((1, 4), 3.0), alone)[alone].tolist() == [0.0]


@given(d=dialogues(rows=6), scale=st.floats(0.5, 20), shift=st.floats(-5, 5))
def test_grpo_is_invariant_to_reward_scale_and_offset(d: Dialogues, scale: float, shift: float) -> None:
    first = torch.zeros_like(d.mask)
    first[torch.arange(len(d.mask)), d.mask.int().argmax(1)] = True
    totals = torch.arange(len(d.mask)).float() ** 2
    rewards = torch.where(first, totals[:, None], torch.zeros(())) * d.mask
    other = torch.where(first, (scale * totals + shift)[:, None], torch.zeros(())) * d.mask
    group = torch.zeros(len(d.mask), dtype=torch.long)
    played = d.mask.any(1)
    if played.all() and len(d.mask) > 1:
        one, two = (advantages.grpo(r, group, d.mask, True) for r in (rewards, other))
        torch.testing.assert_close(one, two, rtol=1e-3, atol=1e-4)
        per_trajectory = one.sum(1) / d.mask.sum(1)
        assert per_trajectory.sum().abs() < 1e-4


def test_grpo_identifies_groups_by_id_not_by_position() -> None:
    rewards = torch.tensor([[1.0], [10.0], [3.0], [20.0]])
    mask = torch.ones(4, 1)
    found = advantages.grpo(rewards, torch.tensor([7, 2, 7, 2]), mask, normalize_by_std=False)
    assert found.squeeze(1).tolist() == [-1.0, -5.0, 1.0, 5.0]


def test_a_group_with_equal_rewards_has_zero_advantage() -> None:
    rewards = torch.full((5, 3), 0.1)
    group = torch.zeros(5, dtype=torch.long)
    assert not advantages.grpo(rewards, group, torch.ones(5, 3), normalize_by_std=True).any()
    assert not advantages.rloo(rewards, group, torch.ones(5, 3)).any()


def test_leave_one_out_compares_with_the_others_only() -> None:
    rewards = torch.tensor([[0.0], [3.0], [6.0]])
    found = advantages.rloo(rewards, torch.zeros(3, dtype=torch.long), torch.ones(3, 1))
    assert found.squeeze(1).tolist() == [-4.5, 0.0, 4.5]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_batch_without_policy_tokens_gives_zeros(name: str) -> None:
    d = Dialogues(torch.zeros(2, 5, dtype=torch.bool), torch.full((2, 5), -1), seed=1)
    for found in estimate(name, d, d.numbers(1), d.numbers(2)):
        assert not found.any()


def returns_by_loop(d: Dialogues, rewards: Tensor, gamma: float, *, restarts: bool) -> Tensor:
    """Reward-to-go of every policy token by its definition: a sum over the later policy tokens of the row."""
    wanted = torch.zeros_like(rewards, dtype=torch.float64)
    for row, chosen in enumerate(d.mask.tolist()):
        for t in range(len(chosen)):
            steps = 0
            for later in range(t, len(chosen)):
                if not chosen[t] or (restarts and not chosen[later]):
                    break
                if chosen[later]:
                    wanted[row, t] += gamma**steps * float(rewards[row, later])
                    steps += 1
    return wanted


@pytest.mark.parametrize("restarts", [False, True])
@given(d=dialogues(), gamma=SHARES)
def test_reinforce_returns_match_a_sum_over_later_tokens(restarts: bool, d: Dialogues, gamma: float) -> None:
    rewards = d.numbers(1).double()
    function = advantages.reinforce_plus_plus_verl if restarts else advantages.reinforce_plus_plus
    found, returns = function(rewards, d.mask, gamma)
    wanted = returns_by_loop(d, rewards, gamma, restarts=restarts)
    torch.testing.assert_close(returns, wanted, rtol=1e-9, atol=1e-9)
    values = wanted[d.mask]
    if len(values) > 1:
        white = (values - values.mean()) / (values.var() + 1e-8).sqrt()
        torch.testing.assert_close(found[d.mask], white, rtol=1e-6, atol=1e-6)


def test_reinforce_plus_plus_credits_earlier_turns_and_its_verl_form_does_not() -> None:
    mask = torch.tensor([[1, 1, 0, 1, 1, 0, 1, 1], [1, 1, 0, 1, 1, 0, 1, 1]])
    rewards = torch.zeros(2, 8)
    rewards[0, 7] = 10.0
    found, returns = advantages.reinforce_plus_plus(rewards, mask, 1.0)
    assert returns[0].tolist() == [10, 10, 0, 10, 10, 0, 10, 10]
    assert found[0, 0] > 0 > found[1, 0]
    found, returns = advantages.reinforce_plus_plus_verl(rewards, mask, 1.0)
    assert returns[0].tolist() == [0, 0, 0, 0, 0, 0, 10, 10]
    assert found[0, 0] == found[1, 0] < 0, "the good trajectory's first turn is treated as the bad one's"


@given(d=dialogues(), gamma=SHARES)
def test_reinforce_returns_equal_those_of_gae_without_a_critic(d: Dialogues, gamma: float) -> None:
    rewards = d.numbers(1)
    _, returns = advantages.reinforce_plus_plus(rewards, d.mask, gamma)
    _, wanted = advantages.gae(rewards, torch.zeros_like(rewards), d.mask, gamma, 1.0)
    torch.testing.assert_close(returns, wanted, rtol=1e-4, atol=1e-5)


def test_estimators_that_compare_a_group_or_need_a_critic_say_so() -> None:
    groups = {name for name, estimator in estimators.ESTIMATORS.items() if estimator.needs_groups}
    critics = {name for name, estimator in estimators.ESTIMATORS.items() if estimator.needs_critic}
    assert groups == {"grpo", "rloo", "reinforce_plus_plus_baseline", "gigpo", "mt_grpo"}
    assert critics == {"gae", "bi_level_gae", "turn_gae"}
