"""Policy objectives: pure functions from log-probabilities and advantages to a loss for each token."""

from __future__ import annotations

import torch
from torch import Tensor

from trainer.algorithms.objectives import ClipRange, TokenObjective, TokenPolicies


def clipped(tokens: TokenPolicies, bounds: ClipRange) -> TokenObjective:
    """PPO's clipped objective of each token's ratio, with the dual clip of negative advantages if it is set.

    Source: Schulman et al. 2017, eq. 7; Yu et al. 2025 (clip-higher); Ye et al. 2020 (dual clip).
    """
    ratios, advantages = tokens.log_ratio.exp(), tokens.advantages
    losses = _pessimistic(ratios, advantages, bounds)
    if bounds.dual is not None:
        bounded = torch.minimum(losses, -advantages * bounds.dual)
        losses = torch.where(advantages < 0, bounded, losses)
    return TokenObjective(losses, ratios)


def gspo(tokens: TokenPolicies, bounds: ClipRange) -> TokenObjective:
    """Clip the ratio of a whole response: the geometric mean of the ratios of the turn's tokens.

    Each token has the gradient of its own log-probability, weighted by the ratio of its response (GSPO-token), so that
    advantages may differ between turns. Bounds are of the order of 3e-4 to 4e-4, as a mean varies less than a token.
    Source: Zheng et al. 2025, arXiv 2507.18071, eq. 7 and 13.
    """
    means = _turn_means(tokens.log_ratio.detach(), tokens.turns, tokens.mask)
    ratios = (means + tokens.logprobs - tokens.logprobs.detach()).exp()
    return TokenObjective(_pessimistic(ratios, tokens.advantages, bounds), ratios)


def cispo(tokens: TokenPolicies, bounds: ClipRange) -> TokenObjective:
    """REINFORCE with importance weights that are clipped instead of the objective: no token loses its gradient.

    Source: MiniMax 2025, arXiv 2506.13585, eq. 4 and 5.
    """
    ratios = tokens.log_ratio.detach().exp()
    weights = ratios.clamp(1 - bounds.low, 1 + bounds.high)
    return TokenObjective(-weights * tokens.advantages * tokens.logprobs, ratios)


def _pessimistic(ratios: Tensor, advantages: Tensor, bounds: ClipRange) -> Tensor:
    return torch.maximum(-advantages * ratios, -advantages * ratios.clamp(1 - bounds.low, 1 + bounds.high))


def _turn_means(values: Tensor, turns: Tensor, mask: Tensor) -> Tensor:
    """Return the mean over the policy tokens of each token's turn, (B, T); 0 off the mask."""
    chosen = mask.bool()
    places = turns.clamp(min=0).masked_fill(~chosen, 0).long()
    count = int(places.max()) + 1 if places.numel() else 1
    zeros = values.new_zeros(len(values), count)
    sums = zeros.scatter_add(1, places, values.masked_fill(~chosen, 0.0))
    counts = zeros.scatter_add(1, places, chosen.to(values.dtype)).clamp(min=1)
    return torch.gather(sums / counts, 1, places).masked_fill(~chosen, 0.0)
