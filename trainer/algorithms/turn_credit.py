"""Credit for each turn: its return, compared within the group (MT-GRPO) or with a critic (turn-level PPO)."""

from __future__ import annotations

import torch
from torch import Tensor

from trainer.algorithms.advantages import EPSILON, group_statistics, only, whitened
from trainer.algorithms.estimators import AdvantageEstimate, EstimatorInputs, EstimatorSettings


def turn_rewards(rewards: Tensor, turns: Tensor, mask: Tensor) -> Tensor:
    """Return the (B, K) reward of each turn; K is the largest number of turns, missing turns get 0.

    Args:
        rewards: (B, T) per token; every reward counts for the turn of its token.
        turns: (B, T) turn of each policy token, counted from 0; read on the mask only.
    """
    chosen = mask.bool()
    count = max(1, int(turns.masked_fill(~chosen, -1).max()) + 1)
    per_turn = torch.zeros(len(rewards), count, dtype=rewards.dtype, device=rewards.device)
    return per_turn.scatter_add_(1, turns.clamp(min=0).masked_fill(~chosen, 0), only(rewards, mask))


def turn_returns(rewards: Tensor, turns: Tensor, mask: Tensor, gamma: float) -> Tensor:
    """Return the (B, K) discounted reward from each turn on; arguments as in `turn_rewards`.

    Args:
        gamma: discount from turn to turn.
    """
    per_turn = turn_rewards(rewards, turns, mask)
    running = torch.zeros_like(per_turn[:, 0])
    for turn in range(per_turn.shape[1] - 1, -1, -1):
        running = per_turn[:, turn] + gamma * running
        per_turn[:, turn] = running
    return per_turn


def on_tokens(per_turn: Tensor, turns: Tensor, mask: Tensor) -> Tensor:
    """Repeat the (B, K) number of each turn on its policy tokens, (B, T); 0 elsewhere."""
    return only(torch.gather(per_turn, 1, turns.clamp(min=0).masked_fill(~mask.bool(), 0)), mask)


def mt_grpo(
    rewards: Tensor, group: Tensor, turns: Tensor, mask: Tensor, *, gamma: float, normalize_by_std: bool
) -> Tensor:
    """Compare the return from each turn on with the group's at the same turn; tokens of a turn share the advantage.

    A trajectory that has ended counts with a return of 0, so that a turn that only one trajectory reached has a
    baseline, too. With one turn this is GRPO.

    Args:
        rewards: (B, T) per token, at the turn that earned it.
        group: (B,) id of the initial state.
        turns: (B, T) turn of each policy token, from 0.
        mask: (B, T) policy tokens.
        gamma: discount from turn to turn.
        normalize_by_std: divide by the standard deviation of the compared returns.
    Returns:
        (B, T) advantages, 0 off the mask. A group of one has mean 0 and deviation 1, as in `grpo`.
    Source: Zeng et al. 2025, arXiv 2505.11821, generalised from two fixed turns to the return from each turn on.
    """
    returns = turn_returns(rewards, turns, mask, gamma)
    compared = torch.zeros_like(returns)
    for turn in range(returns.shape[1]):
        mean, std, size = group_statistics(returns[:, turn], group)
        alone = size < 2
        difference = returns[:, turn].double() - mean.masked_fill(alone, 0.0)
        if normalize_by_std:
            difference = difference / (std.masked_fill(alone, 1.0) + EPSILON)
        compared[:, turn] = difference.to(returns.dtype)
    return on_tokens(compared, turns, mask)


def turn_gae(
    rewards: Tensor, values: Tensor, turns: Tensor, mask: Tensor, *, gamma: float, lam: float
) -> tuple[Tensor, Tensor]:
    """Generalised advantage estimation with turns as actions: PPO on the level of turns.

    The value of a state is the critic's at the first token of its turn, before anything of the turn is written.

    Args:
        rewards, turns, mask: as in `mt_grpo`.
        values: (B, T) the critic's value of the state in which each token was chosen.
        gamma: discount from turn to turn.
        lam: GAE's λ, over turns.
    Returns:
        (B, T) advantages, not whitened, and (B, T) returns: both the same for all tokens of a turn, 0 off the mask.
    Source: Schulman et al. 2016, eq. 16, with one action a turn.
    """
    chosen = mask.bool()
    per_turn = turn_rewards(rewards, turns, mask)
    starts, present = torch.zeros_like(per_turn), torch.zeros_like(per_turn, dtype=torch.bool)
    rows = torch.arange(len(rewards), device=rewards.device)
    for t in range(mask.shape[1] - 1, -1, -1):  # the first token of a turn is written last
        here = chosen[:, t]
        places = rows[here], turns[here, t].long()
        starts[places] = values[here, t].to(starts.dtype)
        present[places] = True
    advantages = torch.zeros_like(per_turn)
    running = next_value = torch.zeros_like(per_turn[:, 0])
    for turn in range(per_turn.shape[1] - 1, -1, -1):
        here = present[:, turn]
        delta = per_turn[:, turn] + gamma * next_value - starts[:, turn]
        running = torch.where(here, delta + gamma * lam * running, running)
        next_value = torch.where(here, starts[:, turn], next_value)
        advantages[:, turn] = running
    return on_tokens(advantages, turns, mask), on_tokens(advantages + starts, turns, mask)


def mt_grpo_advantages(inputs: EstimatorInputs, settings: EstimatorSettings) -> AdvantageEstimate:
    """`mt_grpo`."""
    advantages = mt_grpo(
        inputs.rewards,
        inputs.group,
        inputs.turns,
        inputs.mask,
        gamma=settings.turn_gamma,
        normalize_by_std=settings.normalize_by_std,
    )
    return AdvantageEstimate(advantages)


def turn_gae_advantages(inputs: EstimatorInputs, settings: EstimatorSettings) -> AdvantageEstimate:
    """`turn_gae`, whitened."""
    raw, returns = turn_gae(
        inputs.rewards,
        inputs.critic_values,
        inputs.turns,
        inputs.mask,
        gamma=settings.turn_gamma,
        lam=settings.gae_lambda,
    )
    return AdvantageEstimate(whitened(raw, inputs.mask), returns)
