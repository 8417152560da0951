"""GiGPO: turn-level credit relative to other turns from the same state."""

from __future__ import annotations

import torch
from torch import Tensor

from trainer.algorithms.advantages import EPSILON, group_statistics, grpo
from trainer.algorithms.estimators import AdvantageEstimate, EstimatorInputs, EstimatorSettings
from trainer.algorithms.turn_credit import on_tokens, turn_returns


def gigpo(
    rewards: Tensor,
    group: Tensor,
    turns: Tensor,
    anchors: Tensor,
    mask: Tensor,
    *,
    gamma: float,
    normalize_by_std: bool,
) -> Tensor:
    """Group-in-group advantages: each trajectory against its group, plus each turn against turns from the same state.

    A(turn) = A_trajectory + A_anchor: the weight ω of the turn-level part is the paper's, 1. A_trajectory is GRPO's.
    A_anchor compares the turn's discounted return with the returns of all turns of the group that began in the same
    state, whatever their number; a state visited only once adds 0.

    Args:
        rewards: (B, T) per token, at the turn that earned it.
        group: (B,) id of the initial state; anchors of different groups are never compared.
        turns: (B, T) turn of each policy token, from 0.
        anchors: (B, K) id of the state in which each turn began; negative for missing turns.
        mask: (B, T) policy tokens.
        gamma: discount from turn to turn (paper: 0.95).
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
    return grpo(rewards, group, mask, normalize_by_std) + on_tokens(local, turns, mask)


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
            normalize_by_std=settings.normalize_by_std,
        )
    )
