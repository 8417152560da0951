"""Log-probabilities, entropies and values of a batch."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from trainer.algorithms.losses import aggregate, kl_penalty, truncated_weights
from trainer.config.run import RunConfig
from trainer.learner.micro_batch_plan import MicroBatch, MicroBatchPlan, Planner
from trainer.learner.step_metrics import StepMetrics
from trainer.learner.update_batch import BatchScores, TokenLogprobs
from trainer.learner.update_meter import Stage, UpdateMeter
from trainer.memory.oom import OomRetry
from trainer.policy import lora_adapters
from trainer.policy.critic import Critic
from trainer.policy.forward import PolicyForward
from trainer.policy.load import Policy

KL_SAMPLE = 32
"""Number of rows that suffices to measure the distance from the initial policy."""


def scatter_tokens(values: Tensor, mask: Tensor) -> Tensor:
    """Scatter (M,) numbers of the M tokens on a mask to (B, T), with 0 elsewhere."""
    return values.new_zeros(mask.shape).masked_scatter(mask, values)


@torch.no_grad()
def score_tokens(
    network: nn.Module, micro_batches: Iterable[MicroBatch], shape: torch.Size, temperature: float
) -> TokenLogprobs:
    """Return (B, T) log-probabilities and entropies of the sampled tokens, on the CPU; 0 in rows of other processes.

    Args:
        network: a `PolicyForward`.
        shape: (B, T), the shape of the planned batch.
        temperature: temperature of the rollout.
    """
    scores = TokenLogprobs(torch.zeros(shape), torch.zeros(shape))
    computed = []  # read after all micro-batches are queued: reading waits for the GPU
    for rows, batch, packed in micro_batches:
        scored = network(batch.ids, batch.mask, temperature, packed)
        computed.append((rows, [scatter_tokens(values, batch.mask) for values in scored]))
    for rows, (logprobs, entropies) in computed:
        width = logprobs.shape[1]
        scores.logprobs[rows, :width] += logprobs.cpu()
        scores.entropies[rows, :width] += entropies.cpu()
    return scores


@torch.no_grad()
def score_values(critic: Critic, micro_batches: Iterable[MicroBatch], shape: torch.Size) -> Tensor:
    """Return the critic's (B, T) values before each token, on the CPU; 0 in padding and in rows of other processes."""
    values = torch.zeros(shape)
    for rows, batch, packed in micro_batches:
        values[rows, : batch.mask.shape[1]] += (critic(batch.ids, packed) * batch.attention).cpu()
    return values


class Scorer:
    """Scores batches with a learner's models, retrying once with smaller micro-batches when out of memory.

    Args:
        reference: the initial policy; with adapters it is the policy with the adapters switched off.
    """

    def __init__(
        self,
        config: RunConfig,
        policy: Policy,
        reference: Policy | None,
        critic: Critic | None,
        planner: Planner,
        oom_retry: OomRetry,
        meter: UpdateMeter,
    ) -> None:
        self.algorithm, self.temperature = config.algorithm, config.rollout.temperature
        self.adapted = config.lora.rank > 0
        self.policy, self.reference, self.critic = policy, reference, critic
        self.planner, self.oom_retry, self.meter = planner, oom_retry, meter

    def score(self, plan: MicroBatchPlan, policy: Policy, stage: Stage = "old") -> TokenLogprobs:
        """Return log-probabilities and entropies of all rows, from all processes."""
        network, shape = PolicyForward(policy.model), plan.batch.mask.shape
        scores = self.oom_retry.run(
            lambda tokens: score_tokens(network, self.meter.watch(plan, tokens, stage), shape, self.temperature)
        )
        plan.group.all_reduce(scores.logprobs, scores.entropies)
        return scores

    def values(self, plan: MicroBatchPlan) -> Tensor:
        """Return the critic's (B, T) values of all rows, from all processes."""
        assert self.critic is not None
        critic, shape = self.critic, plan.batch.mask.shape
        values = self.oom_retry.run(
            lambda tokens: score_values(critic, self.meter.watch(plan, tokens, "values"), shape)
        )
        plan.group.all_reduce(values)
        return values

    def reference_logprobs(self, plan: MicroBatchPlan) -> Tensor:
        """Return (B, T) log-probabilities of the sampled tokens under the initial policy."""
        if not self.adapted:
            assert self.reference is not None
            return self.score(plan, self.reference, "reference").logprobs
        with lora_adapters.adapters_disabled(self.policy.model):
            return self.score(plan, self.policy, "reference").logprobs

    def planned_rows(self, rows: int) -> int:
        """Return the number of rows that `score_batch` passes through a model, for a batch of this many rows."""
        has_reference = self.reference is not None or self.adapted
        reference = (rows if self.algorithm.kl_coef > 0 else min(rows, KL_SAMPLE)) if has_reference else 0
        return reference + rows * (self.algorithm.tis_cap is not None) + rows * (self.critic is not None)

    def score_batch(self, plan: MicroBatchPlan, metrics: StepMetrics) -> BatchScores:
        """Compute all scores that an update reads."""
        reference = self._penalty_reference(plan, metrics)
        old_logprobs, weights = self._old_logprobs(plan, metrics)
        values = None if self.critic is None else self.values(plan)
        return BatchScores(old_logprobs, weights, reference, values)

    def _penalty_reference(self, plan: MicroBatchPlan, metrics: StepMetrics) -> Tensor | None:
        """Return the initial policy's log-probabilities for the KL penalty; without it, only measure their distance."""
        if self.reference is None and not self.adapted:
            return None
        penalized = self.algorithm.kl_coef > 0
        if not penalized:
            plan = self.planner.plan(plan.batch.select(torch.arange(min(len(plan.batch), KL_SAMPLE))))
        logprobs = self.reference_logprobs(plan)
        kl = kl_penalty(plan.batch.sampler_logprobs, logprobs, "k3")
        metrics.set("policy/kl_to_initial", float(aggregate(kl, plan.batch.mask, "token-mean")))
        return logprobs if penalized else None

    def _old_logprobs(self, plan: MicroBatchPlan, metrics: StepMetrics) -> tuple[Tensor, Tensor]:
        """Return old log-probabilities for the ratio, and per-token importance weights.

        With `tis_cap` these are the trainer's log-probabilities, and weights that correct for the difference; otherwise
        the sampler's, and 1.
        """
        batch, cap = plan.batch, self.algorithm.tis_cap
        if cap is None:
            return batch.sampler_logprobs, torch.ones_like(batch.rewards)
        logprobs = self.score(plan, self.policy).logprobs
        weights = truncated_weights(logprobs, batch.sampler_logprobs, batch.mask, cap)
        metrics.set("mismatch/clipped_fraction", float((weights[batch.mask] >= cap).float().mean()))
        return logprobs, weights
