"""GiGPO: turn-level credit relative to other turns from the same state."""

from __future__ import annotations

import torch
from torch import Tensor

from trainer.algorithms.advantages import EPSILON, group_statistics, grpo, only
from trainer.algorithms.estimators import AdvantageEstimate, EstimatorInputs, EstimatorSettings


def turn_returns(rewards: Tensor, turns: Tensor, mask: Tensor, gamma: float) -> Tensor:
    """Return the (B, K) discounted reward from each turn on; K is the largest number of turns, missing turns get 0.

    Args:
        rewards: (B, T) per token; every reward counts for the turn of its token.
        turns: (B, T) turn of each policy token, counted from 0; read on the mask only.
        gamma: discount from turn to turn.
    """
    chosen = mask.bool()
    count = max(1, int(turns.masked_fill(~chosen, -1).max()) + 1)
    per_turn = torch.zeros(len(rewards), count, dtype=rewards.dtype, device=rewards.device)
    per_turn.scatter_add_(1, turns.clamp(min=0).masked_fill(~chosen, 0), only(rewards, mask))
    running = torch.zeros_like(rewards[:, 0])
    for turn in range(count - 1, -1, -1):
        running = per_turn[:, turn] + gamma * running
        per_turn[:, turn] = running
    return per_turn


def gigpo(
    rewards: Tensor,
    group: Tensor,
    turns: Tensor,
    anchors: Tensor,
    mask: Tensor,
    *,
    gamma: float,
    weight: float,
    normalize_by_std: bool,
) -> Tensor:
    """Group-in-group advantages: each trajectory against its group, plus each turn against turns from the same state.

    A(turn) = A_trajectory + weight · A_anchor. A_trajectory is GRPO's. A_anchor compares the turn's discounted return
    with the returns of all turns of the group that began in the same state, whatever their number; a state visited only
    once adds 0.

    Args:
        rewards: (B, T) per token, at the turn that earned it.
        group: (B,) id of the initial state; anchors of different groups are never compared.
        turns: (B, T) turn of each policy token, from 0.
        anchors: (B, K) id of the state in which each turn began; negative for missing turns.
        mask: (B, T) policy tokens.
        gamma: discount from turn to turn (paper: 0.95).
        weight: ω of the turn-level part (paper: 1).
        normalize_by_std: divide both parts by the standard deviation of the compared values.
    Returns:
        (B, T) advantages, 0 off the mask.
    Source: Feng et al. 2025, arXiv 2505.10978, eq. 3, 6–8.
    """
    returns = turn_returns(rewards, turns, mask, gamma)
    width = returns.shape[1]
    present = anchors[:, :width] >= 0
    if not present.any():
        return grpo(rewards, group, mask, normalize_by_std)
    anchor_keys = torch.stack([group[:, None].expand(-1, width)[present], anchors[:, :width][present]])
    _, states = torch.unique(anchor_keys, dim=1, return_inverse=True)
    mean, std, size = group_statistics(returns[present], states)
    compared = returns[present].double() - mean
    if normalize_by_std:
        compared = compared / (std + EPSILON)
    local = torch.zeros_like(returns)
    local[present] = compared.masked_fill(size < 2, 0.0).to(returns.dtype)
    per_token = torch.gather(local, 1, turns.clamp(min=0).masked_fill(~mask.bool(), 0))
    return grpo(rewards, group, mask, normalize_by_std) + only(weight * per_token, mask)


def gigpo_advantages(inputs: EstimatorInputs, settings: EstimatorSettings) -> AdvantageEstimate:
    """`gigpo`."""
    return AdvantageEstimate(
        gigpo(
            inputs.rewards,
            inputs.group,
            inputs.turns,
            inputs.anchors,
            inputs.mask,
            gamma=settings.turn_gamma,
            weight=settings.gigpo_omega,
            normalize_by_std=settings.normalize_by_std,
        )
    )
