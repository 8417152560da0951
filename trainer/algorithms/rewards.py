"""Format rule, KL penalty and normalisation of rewards."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from trainer.algorithms.advantages import group_statistics, only
from trainer.algorithms.reward_normalizations import Grouping, Method

FormatRule = Literal["structure", "actions"]
EPSILON = 1e-6
ASYMMETRIC_CLIP = (-1.0, 3.0)


def is_format_valid(*, structured: bool, known_actions: int, unknown_actions: int, rule: FormatRule) -> bool:
    """True if a turn has a valid format.

    Args:
        structured: the required tags are present, in order.
        known_actions, unknown_actions: actions of the answer that exist in the environment, and that do not.
        rule: `structure`: the tags and any action; `actions`: at least one known action and no unknown one.
    """
    match rule:
        case "structure":
            return structured and known_actions + unknown_actions > 0
        case "actions":
            return structured and known_actions > 0 and unknown_actions == 0
    raise ValueError(f"unknown format rule {rule!r}")


def subtract_kl(rewards: Tensor, kl: Tensor, mask: Tensor, coefficient: float) -> Tensor:
    """Subtract `coefficient` × KL to the reference policy from the (B, T) rewards of every policy token."""
    return only(rewards, mask) - coefficient * only(kl, mask)


def normalize(scores: Tensor, state: Tensor, environment: Tensor, *, grouping: Grouping, method: Method) -> Tensor:
    """Normalise (B,) trajectory rewards within each group of `grouping`. The filter reads raw rewards instead.

    Args:
        scores: (B,) raw rewards R(τ), penalties included.
        state: (B,) id of the initial state; `environment`: (B,) id of the environment.
        grouping: trajectories from one state, of one environment, or the whole batch are compared.
        method: `identity`; `mean` subtracts the mean; `mean_std` also divides by the standard deviation (0 where
            there is none); `asym_clip` further clips to [−1, 3].
    Returns:
        (B,) float32; unchanged scores where every group has one trajectory.
    """
    mean, std, size = group_statistics(scores, _compared(state, environment, grouping))
    if method == "identity" or int(size.max()) < 2:
        return scores.float()
    centred = scores.double() - mean
    if method == "mean":
        return centred.float()
    scaled = torch.where(std > EPSILON, centred / (std + EPSILON), torch.zeros_like(centred))
    match method:
        case "mean_std":
            return scaled.float()
        case "asym_clip":
            return scaled.clamp(*ASYMMETRIC_CLIP).float()
    raise ValueError(f"unknown normalisation {method!r}")


def _compared(state: Tensor, environment: Tensor, grouping: Grouping) -> Tensor:
    """Return the (B,) id of the group within which each trajectory is compared."""
    match grouping:
        case "state":
            return state
        case "environment":
            return environment
        case "batch":
            return torch.zeros_like(state)
    raise ValueError(f"unknown grouping {grouping!r}")


def normalize_tokens(
    rewards: Tensor, mask: Tensor, state: Tensor, environment: Tensor, *, grouping: Grouping, method: Method
) -> Tensor:
    """Return (B, T) rewards with sums per trajectory that are normalised by `normalize`.

    The turns keep their proportions; the amount added by shifting and clipping goes to the last policy token.

    Args:
        rewards: (B, T) raw, per token; `mask`: (B, T) policy tokens.
        state, environment, grouping, method: as in `normalize`.
    """
    rewards = only(rewards, mask)
    if method == "identity":
        return rewards
    totals = rewards.sum(dim=1)
    _, std, size = group_statistics(totals, _compared(state, environment, grouping))
    scale = torch.ones_like(totals)
    if method != "mean" and int(size.max()) > 1:
        scale = torch.where(std > EPSILON, 1 / (std + EPSILON), torch.zeros_like(std)).to(totals.dtype)
    scaled = rewards * scale[:, None]
    target = normalize(totals, state, environment, grouping=grouping, method=method)
    last = (torch.arange(mask.shape[1], device=mask.device) * mask.long()).argmax(dim=1)
    rows = torch.arange(len(totals), device=mask.device)
    scaled[rows, last] += (target - scaled.sum(dim=1)) * mask.any(dim=1)
    return scaled
