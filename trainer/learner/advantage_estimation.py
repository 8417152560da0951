"""From a batch's rewards to advantages, by the estimator that the settings name.

The maths is in advantages.py and credit.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from trainer.algorithms import advantages, gigpo
from trainer.algorithms.rewards import normalize_tokens
from trainer.config.run import AlgorithmConfig
from trainer.rollout.trajectory import Batch


@dataclass(frozen=True)
class AdvantageEstimate:
    """(B, T) advantages and, with a critic, the (B, T) returns it learns to predict; both 0 off the mask."""

    advantages: Tensor
    returns: Tensor | None


def estimate_advantages(
    batch: Batch, rewards: Tensor, values: Tensor | None, algorithm: AlgorithmConfig
) -> AdvantageEstimate:
    """Advantages of every policy token.

    Args:
        batch: what was played; `batch.weight` scales the advantages of its trajectories (soft filter).
        rewards: (B, T) per token, the KL penalty taken off where it is part of the reward.
        values: (B, T) of the critic, for the estimators that need one.
    Raises:
        ValueError: the estimator needs a critic's values and got none.
    """
    mask, gamma = batch.mask, algorithm.gamma
    rewards = normalize_tokens(
        rewards,
        mask,
        batch.group,
        batch.environment,
        grouping=algorithm.reward_grouping,
        method=algorithm.reward_normalization,
    )
    returns: Tensor | None = None
    match algorithm.estimator:
        case "gae" | "bi_level_gae":
            if values is None:
                raise ValueError(f"{algorithm.estimator} needs the critic's values")
            if algorithm.estimator == "gae":
                raw, returns = advantages.gae(rewards, values, mask, gamma, algorithm.gae_lambda)
            else:
                raw, returns = advantages.bi_level_gae(
                    rewards, values, mask, batch.turn_of, gamma, algorithm.gae_lambda, algorithm.turn_gamma
                )
            found = advantages.only(advantages.masked_whiten(raw, mask), mask) if algorithm.whiten_advantages else raw
        case "grpo":
            found = advantages.grpo(rewards, batch.group, mask, algorithm.normalize_by_std)
        case "rloo":
            found = advantages.rloo(rewards, batch.group, mask)
        case "reinforce_plus_plus":
            found, _ = advantages.reinforce_plus_plus(rewards, mask, gamma)
        case "reinforce_plus_plus_baseline":
            found = advantages.reinforce_plus_plus_baseline(rewards, batch.group, mask)
        case "gigpo":
            found = gigpo.gigpo(
                rewards,
                batch.group,
                batch.turn_of,
                batch.anchors,
                mask,
                gamma=algorithm.turn_gamma,
                weight=algorithm.gigpo_omega,
                normalize_by_std=algorithm.normalize_by_std,
            )
    return AdvantageEstimate(found * batch.weight[:, None], returns)
