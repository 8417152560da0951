"""Advantages and regression targets of a batch, computed by the configured estimator."""

from __future__ import annotations

import torch
from torch import Tensor

from trainer.algorithms.estimators import ESTIMATORS, AdvantageEstimate, EstimatorInputs
from trainer.algorithms.losses import explained_variance, kl_penalty
from trainer.algorithms.reward_normalizations import NORMALIZATIONS
from trainer.algorithms.rewards import normalize_tokens, subtract_kl
from trainer.config.algorithm import AlgorithmConfig
from trainer.learner.step_metrics import StepMetrics
from trainer.learner.trajectory_rows import TrajectoryRows
from trainer.learner.update_batch import BatchScores, UpdateTensors
from trainer.rollout.trajectory import Batch


def estimate_update(
    batch: Batch, scores: BatchScores, algorithm: AlgorithmConfig, metrics: StepMetrics
) -> tuple[Tensor, UpdateTensors]:
    """Return the (B, T) advantages of a batch, and the tensors that its losses read."""
    rewards = _penalized_rewards(batch, scores.reference, algorithm)
    estimate = estimate_advantages(batch, rewards, scores.values, algorithm)
    if scores.values is not None and estimate.returns is not None:
        metrics.set("value/explained_variance", explained_variance(estimate.returns, scores.values, batch.mask))
    zeros = torch.zeros_like(rewards)
    return estimate.advantages, UpdateTensors(
        advantages=estimate.advantages * scores.token_weights,
        returns=zeros if estimate.returns is None else estimate.returns,
        old_values=zeros if scores.values is None else scores.values,
        old_logprobs=scores.old_logprobs,
        reference=scores.reference,
    )


def _penalized_rewards(batch: Batch, reference: Tensor | None, algorithm: AlgorithmConfig) -> Tensor:
    """Return the (B, T) rewards, minus the KL penalty if it is part of the reward."""
    if reference is None or algorithm.kl_placement != "reward":
        return batch.rewards
    kl = kl_penalty(batch.sampler_logprobs, reference, algorithm.kl_estimator)
    return subtract_kl(batch.rewards, kl, batch.mask, algorithm.kl_coef)


def estimate_advantages(
    batch: Batch, rewards: Tensor, values: Tensor | None, algorithm: AlgorithmConfig
) -> AdvantageEstimate:
    """Estimate the advantages of every policy token, weighted by `batch.weight` (soft filter).

    Estimators read one row per trajectory. If the policy's context is windowed, the rows of each trajectory are
    gathered into one, and the result is scattered back.

    Args:
        rewards: (B, T) per token.
        values: (B, T) predictions of the critic, for estimators that need one.
    Raises:
        ValueError: the estimator needs the critic's values and got none, or a trajectory's rows are not adjacent.
    """
    if len(torch.unique(batch.trajectory)) == len(batch):
        return _estimate_rows(batch, rewards, values, algorithm)
    rows = TrajectoryRows.of(batch)
    gathered_values = None if values is None else rows.gather(values)
    estimate = _estimate_rows(rows.batch(batch), rows.gather(rewards), gathered_values, algorithm)
    returns = None if estimate.returns is None else rows.scatter(estimate.returns)
    return AdvantageEstimate(rows.scatter(estimate.advantages), returns)


def _estimate_rows(
    batch: Batch, rewards: Tensor, values: Tensor | None, algorithm: AlgorithmConfig
) -> AdvantageEstimate:
    """`estimate_advantages` for a batch with one row per trajectory."""
    method, grouping = NORMALIZATIONS[algorithm.reward_normalization]
    rewards = normalize_tokens(rewards, batch.mask, batch.group, batch.environment, grouping=grouping, method=method)
    inputs = EstimatorInputs(
        rewards=rewards,
        values=values,
        mask=batch.mask,
        turns=batch.turn_of,
        group=batch.group,
        anchors=batch.anchors,
    )
    estimate = ESTIMATORS[algorithm.estimator].estimate(inputs, algorithm)
    return AdvantageEstimate(estimate.advantages * batch.weight[:, None], estimate.returns)
