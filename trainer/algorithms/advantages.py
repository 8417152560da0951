"""Advantage estimators: pure functions from per-token rewards to per-token advantages.

Shapes: B sequences padded to T tokens. `mask` (B, T) is 1 exactly on policy tokens (the sampled ones); other
positions (environment tokens, padding) are never read, and results are 0 there.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trainer.algorithms.estimators import AdvantageEstimate, EstimatorInputs, EstimatorSettings

EPSILON = 1e-6


def only(values: Tensor, mask: Tensor) -> Tensor:
    """Return `values` on policy tokens and 0 elsewhere, even where other positions are NaN or infinite."""
    return torch.where(mask.bool(), values, torch.zeros((), dtype=values.dtype, device=values.device))


def gae(rewards: Tensor, values: Tensor, mask: Tensor, gamma: float, lam: float) -> tuple[Tensor, Tensor]:
    """Generalised advantage estimation over policy tokens; environment tokens are skipped, not discounted through.

    Args:
        rewards: (B, T) reward of each token, usually non-zero only at the last sampled token of a turn.
        values: (B, T) the critic's value of the state in which each token was chosen.
        mask: (B, T) policy tokens.
    Returns:
        (B, T) advantages, not whitened, and (B, T) returns (advantages + values); both 0 off the mask.
    Source: Schulman et al. 2016, eq. 16.
    """
    return _gae(rewards, values, mask, gamma, lam, torch.zeros_like(mask))


def _gae(
    rewards: Tensor, values: Tensor, mask: Tensor, gamma: float, lam: float, ends: Tensor
) -> tuple[Tensor, Tensor]:
    """`gae`, except that nothing flows back over a token marked in `ends`, (B, T)."""
    rewards, values, chosen, ends = only(rewards, mask), only(values, mask), mask.bool(), ends.bool()
    advantages = torch.zeros_like(values)
    start = torch.zeros_like(values[:, 0])
    running, next_value = start, start
    for t in range(values.shape[1] - 1, -1, -1):
        here, end = chosen[:, t], ends[:, t]
        running = torch.where(end, start, running)
        next_value = torch.where(end, start, next_value)
        delta = rewards[:, t] + gamma * next_value - values[:, t]
        running = torch.where(here, delta + gamma * lam * running, running)
        next_value = torch.where(here, values[:, t], next_value)
        advantages[:, t] = running
    return only(advantages, mask), only(advantages + values, mask)


def bi_level_gae(
    rewards: Tensor, values: Tensor, mask: Tensor, turns: Tensor, gamma: float, lam: float, turn_gamma: float
) -> tuple[Tensor, Tensor]:
    """Turn-level GAE first, then token-level GAE inside each turn with the turn's return as its final reward.

    Args:
        rewards, values, mask: as in `gae`. A turn's reward is at its last policy token; rewards of other tokens
            stay inside their turn.
        turns: (B, T) id of the turn each policy token belongs to, growing along the sequence; read on the mask only.
            Boundaries are explicit, so a turn with reward 0 is a turn like any other.
        turn_gamma: discount from turn to turn; `gamma` is the discount inside a turn.
    Returns:
        (B, T) advantages, not whitened, and (B, T) returns; both 0 off the mask.
    Source: VAGEN, arXiv 2510.16907 (bi-level GAE); the estimator of RAGEN's `bi_level_gae` setting.
    """
    ends = turn_ends(turns, mask)
    _, turn_returns = gae(rewards, values, ends, turn_gamma, lam)
    return _gae(torch.where(ends, turn_returns, rewards), values, mask, gamma, lam, ends)


def turn_ends(turns: Tensor, mask: Tensor) -> Tensor:
    """(B, T) bool: True at the last policy token of each turn, from explicit turn ids."""
    chosen = mask.bool()
    ends = torch.zeros_like(chosen)
    later = torch.full_like(turns[:, 0], -1)
    nothing_later = torch.ones_like(chosen[:, 0])
    for t in range(turns.shape[1] - 1, -1, -1):
        here = chosen[:, t]
        ends[:, t] = here & (nothing_later | (turns[:, t] != later))
        later = torch.where(here, turns[:, t], later)
        nothing_later = nothing_later & ~here
    return ends


def masked_whiten(values: Tensor, mask: Tensor, shift_mean: bool = True) -> Tensor:
    """Scale to unit variance over the mask (and to zero mean, unless `shift_mean` is off).

    Every entry is transformed, masked or not: multiply by the mask (or use `only`) where zeros are wanted. Variance
    has Bessel's correction; with fewer than two policy tokens only the mean is subtracted.
    """
    count = mask.bool().sum()
    masked = only(values, mask).double()
    mean = masked.sum() / count.clamp(min=1)
    if int(count) < 2:
        return (values - mean if shift_mean else values).to(values.dtype)
    variance = only((masked - mean) ** 2, mask).sum() / (count - 1)
    whitened = (values.double() - mean) * torch.rsqrt(variance + 1e-8)
    return (whitened if shift_mean else whitened + mean).to(values.dtype)


def trajectory_rewards(rewards: Tensor, mask: Tensor) -> Tensor:
    """Return (B,) R(τ): the sum of each sequence's rewards over its policy tokens."""
    return only(rewards, mask).sum(dim=1)


def group_statistics(totals: Tensor, group: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return (B,) mean, standard deviation (Bessel; 0 for a group of one) and size of each trajectory's group."""
    _, inverse, sizes = torch.unique(group, return_inverse=True, return_counts=True)
    exact = totals.double()
    zeros = torch.zeros(len(sizes), dtype=exact.dtype, device=exact.device)
    mean = (zeros.scatter_add(0, inverse, exact) / sizes)[inverse]
    variance = zeros.scatter_add(0, inverse, (exact - mean) ** 2) / (sizes - 1).clamp(min=1)
    return mean, variance.sqrt()[inverse], sizes[inverse]


def grpo(rewards: Tensor, group: Tensor, mask: Tensor, normalize_by_std: bool, epsilon: float = EPSILON) -> Tensor:
    """Compare each trajectory's reward with its group; all policy tokens of the trajectory share the advantage.

    Args:
        rewards: (B, T) per token, any position; summed to R(τ).
        group: (B,) integer id of the initial state each trajectory started from.
        normalize_by_std: divide by the group's standard deviation; Dr. GRPO does not.
    Returns:
        (B, T) advantages, 0 off the mask. A group of one has mean 0 and deviation 1.
    Source: Shao et al. 2024 (GRPO); Liu et al. 2025 (Dr. GRPO).
    """
    totals = trajectory_rewards(rewards, mask)
    mean, std, size = group_statistics(totals, group)
    alone = size < 2
    advantage = totals.double() - mean.masked_fill(alone, 0.0)
    if normalize_by_std:
        advantage = advantage / (std.masked_fill(alone, 1.0) + epsilon)
    return spread(advantage.to(rewards.dtype), mask)


def rloo(rewards: Tensor, group: Tensor, mask: Tensor) -> Tensor:
    """Compare each trajectory with the mean of the others in its group; its policy tokens share the advantage.

    Arguments and result as in `grpo`; a group of one keeps its raw reward (no baseline).
    Source: Ahmadian et al. 2024, eq. 8.
    """
    totals = trajectory_rewards(rewards, mask)
    mean, _, size = group_statistics(totals, group)
    exact = totals.double()
    against_others = (exact - mean) * size / (size - 1).clamp(min=1)
    return spread(torch.where(size > 1, against_others, exact).to(rewards.dtype), mask)


def reinforce_plus_plus(rewards: Tensor, mask: Tensor, gamma: float) -> tuple[Tensor, Tensor]:
    """Discounted reward-to-go over policy tokens, whitened over the batch; no critic, no groups.

    Environment tokens are skipped as in `gae`: a turn's reward reaches the tokens of this and all earlier turns,
    discounted once per policy token.

    Returns:
        (B, T) advantages and (B, T) returns, both 0 off the mask.
    Source: Hu 2025 (REINFORCE++), with the trajectory objective of StarPO, arXiv 2504.20073, eq. 2.
    """
    return _whitened_rewards_to_go(rewards, mask, gamma, restart=False)


def reinforce_plus_plus_verl(rewards: Tensor, mask: Tensor, gamma: float) -> tuple[Tensor, Tensor]:
    """`reinforce_plus_plus`, but the reward-to-go restarts at every gap in the mask, as in veRL.

    A reward reaches only the tokens of the same turn. A turn gets no credit for later turns, and if only the last turn
    is rewarded, earlier turns get no credit at all.

    Returns:
        (B, T) advantages and (B, T) returns, both 0 off the mask.
    Source: veRL's REINFORCE++ on a mask with gaps.
    """
    return _whitened_rewards_to_go(rewards, mask, gamma, restart=True)


def _whitened_rewards_to_go(rewards: Tensor, mask: Tensor, gamma: float, *, restart: bool) -> tuple[Tensor, Tensor]:
    """Return whitened and raw rewards-to-go; with `restart` the sum restarts at every gap in the mask."""
    rewards, chosen = only(rewards, mask), mask.bool()
    returns = torch.zeros_like(rewards)
    running = start = torch.zeros_like(rewards[:, 0])
    for t in range(rewards.shape[1] - 1, -1, -1):
        running = torch.where(chosen[:, t], rewards[:, t] + gamma * running, start if restart else running)
        returns[:, t] = running
    returns = only(returns, mask)
    return whitened(returns, mask), returns


def reinforce_plus_plus_baseline(rewards: Tensor, group: Tensor, mask: Tensor) -> Tensor:
    """REINFORCE++ with the group's mean as baseline, whitened over the batch's policy tokens.

    Arguments and result as in `grpo`; a group of one has baseline 0.
    Source: Hu 2025 (REINFORCE++-baseline).
    """
    totals = trajectory_rewards(rewards, mask)
    mean, _, size = group_statistics(totals, group)
    centred = (totals.double() - mean.masked_fill(size < 2, 0.0)).to(rewards.dtype)
    return whitened(spread(centred, mask), mask)


def spread(per_trajectory: Tensor, mask: Tensor) -> Tensor:
    """Repeat each trajectory's number on all its policy tokens, (B, T); 0 elsewhere."""
    return only(per_trajectory[:, None].expand(mask.shape), mask)


def gae_advantages(inputs: EstimatorInputs, settings: EstimatorSettings) -> AdvantageEstimate:
    """`gae`, whitened."""
    raw, returns = gae(inputs.rewards, inputs.critic_values, inputs.mask, settings.gamma, settings.gae_lambda)
    return AdvantageEstimate(whitened(raw, inputs.mask), returns)


def bi_level_gae_advantages(inputs: EstimatorInputs, settings: EstimatorSettings) -> AdvantageEstimate:
    """`bi_level_gae`, whitened."""
    raw, returns = bi_level_gae(
        inputs.rewards,
        inputs.critic_values,
        inputs.mask,
        inputs.turns,
        settings.gamma,
        settings.gae_lambda,
        settings.turn_gamma,
    )
    return AdvantageEstimate(whitened(raw, inputs.mask), returns)


def whitened(raw: Tensor, mask: Tensor) -> Tensor:
    """Return (B, T) advantages normalised over the policy tokens; 0 off the mask."""
    return only(masked_whiten(raw, mask), mask)


def grpo_advantages(inputs: EstimatorInputs, settings: EstimatorSettings) -> AdvantageEstimate:
    """`grpo`."""
    return AdvantageEstimate(grpo(inputs.rewards, inputs.group, inputs.mask, settings.normalize_by_std))


def rloo_advantages(inputs: EstimatorInputs, settings: EstimatorSettings) -> AdvantageEstimate:
    """`rloo`."""
    return AdvantageEstimate(rloo(inputs.rewards, inputs.group, inputs.mask))


def reinforce_plus_plus_advantages(inputs: EstimatorInputs, settings: EstimatorSettings) -> AdvantageEstimate:
    """`reinforce_plus_plus`; its returns have no critic to train."""
    return AdvantageEstimate(reinforce_plus_plus(inputs.rewards, inputs.mask, settings.gamma)[0])


def reinforce_plus_plus_verl_advantages(inputs: EstimatorInputs, settings: EstimatorSettings) -> AdvantageEstimate:
    """`reinforce_plus_plus_verl`."""
    return AdvantageEstimate(reinforce_plus_plus_verl(inputs.rewards, inputs.mask, settings.gamma)[0])


def reinforce_plus_plus_baseline_advantages(inputs: EstimatorInputs, settings: EstimatorSettings) -> AdvantageEstimate:
    """`reinforce_plus_plus_baseline`."""
    return AdvantageEstimate(reinforce_plus_plus_baseline(inputs.rewards, inputs.group, inputs.mask))
