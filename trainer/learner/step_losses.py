"""Losses and gradients of one optimiser step, micro-batch by micro-batch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from trainer.algorithms.losses import (
    LossInputs,
    LossOutputs,
    LossTotals,
    TokenOutcomes,
    ValueLossInputs,
    aggregate,
    kl_penalty,
    policy_loss,
    value_loss,
)
from trainer.config.run import RunConfig
from trainer.learner import gradient_diagnostics
from trainer.learner.micro_batch_plan import MicroBatch
from trainer.learner.scoring import scatter_tokens
from trainer.learner.update_batch import UpdateTensors
from trainer.policy import lora_adapters
from trainer.policy.critic import Critic
from trainer.policy.forward import PolicyForward
from trainer.rollout.trajectory import Batch


@dataclass(frozen=True)
class PolicyTerms:
    """A micro-batch's share of the policy's loss.

    Attributes:
        logprobs: (n, T) log-probabilities of its tokens.
        outputs: the clipped objective and its metrics.
        terms: minimised terms by name: task, entropy and, with a KL loss, kl.
    """

    logprobs: Tensor
    outputs: LossOutputs
    terms: dict[str, Tensor]


@dataclass(frozen=True)
class StepGradients:
    """This process's share of a step.

    Attributes:
        sums: sums of metrics.
        logprobs: (B, T) log-probabilities of the policy; 0 elsewhere and in rows of other processes.
        tokens: (B, T) outcomes of the objective; 0 and False in rows of other processes.
    """

    sums: dict[str, float]
    logprobs: Tensor
    tokens: TokenOutcomes


class StepLosses:
    """Losses of an update batch, normalised so that the losses of its micro-batches add up to the batch's loss.

    Args:
        batch: rows of one optimiser step.
        tensors: tensors of the same rows.
    """

    def __init__(self, config: RunConfig, batch: Batch, tensors: UpdateTensors) -> None:
        rollout = config.rollout
        self.algorithm, self.temperature = config.algorithm, rollout.temperature
        self.tensors, self.shape = tensors, batch.mask.shape
        longest = rollout.max_turns * rollout.max_response_tokens
        self.totals = LossTotals.of(batch.mask, batch.trajectory, longest)

    def policy_terms(self, network: nn.Module, micro_batch: MicroBatch) -> PolicyTerms:
        """Compute the loss terms of the policy; `network` is a `PolicyForward`."""
        algorithm, totals, (_, batch, packed) = self.algorithm, self.totals, micro_batch
        tensors = self._select_tensors(micro_batch)
        flat_logprobs, flat_entropies = network(batch.ids, batch.mask, self.temperature, packed)
        logprobs, entropies = scatter_tokens(flat_logprobs, batch.mask), scatter_tokens(flat_entropies, batch.mask)
        outputs = policy_loss(
            LossInputs(
                logprobs,
                tensors.old_logprobs,
                tensors.advantages,
                batch.mask,
                totals,
                batch.tokens,
                batch.turn_of,
            ),
            clip_low=algorithm.clip_low,
            clip_high=algorithm.clip_high,
            dual_clip=algorithm.dual_clip,
            aggregation=algorithm.aggregation,
            objective=algorithm.objective,
        )
        entropy = aggregate(entropies, batch.mask, algorithm.aggregation, totals, batch.tokens)
        terms = {"task": outputs.loss, "entropy": -algorithm.entropy_coef * entropy}
        if tensors.reference is not None and algorithm.kl_placement == "loss":
            kl = kl_penalty(logprobs, tensors.reference, algorithm.kl_estimator)
            terms["kl"] = algorithm.kl_coef * aggregate(kl, batch.mask, algorithm.aggregation, totals, batch.tokens)
        return PolicyTerms(logprobs, outputs, terms)

    def value_loss(self, critic: Critic, micro_batch: MicroBatch) -> LossOutputs:
        """Compute the loss of the critic, not yet weighted by `value_coef`."""
        tensors = self._select_tensors(micro_batch)
        values = critic(micro_batch.batch.ids, micro_batch.packed)
        return value_loss(
            ValueLossInputs(values, tensors.old_values, tensors.returns, micro_batch.batch.mask, self.totals)
        )

    def backward(
        self, micro_batches: Iterable[MicroBatch], network: nn.Module | None, critic: Critic | None
    ) -> StepGradients:
        """Accumulate the gradients of policy and critic; None for a model that this step does not train."""
        computed: list[tuple[Tensor, Tensor, TokenOutcomes | None]] = []  # indices of rows, log-probabilities, outcomes
        shares: list[tuple[str, Tensor]] = []  # read after all micro-batches are queued: reading waits for the GPU
        for micro_batch in micro_batches:
            if network is not None:
                policy = self.policy_terms(network, micro_batch)
                computed.append((micro_batch.rows, policy.logprobs.detach(), policy.outputs.tokens))
                sum(policy.terms.values()).backward()  # type: ignore[union-attr]
                shares += _shares("policy/loss", policy.outputs)
            if critic is not None:
                value = self.value_loss(critic, micro_batch)
                (self.algorithm.value_coef * value.loss).backward()  # type: ignore[no-untyped-call]
                shares += _shares("value/loss", value)
        logprobs, ratios = torch.zeros(self.shape), torch.zeros(self.shape)
        clipped, teaches = torch.zeros(self.shape, dtype=torch.bool), torch.zeros(self.shape, dtype=torch.bool)
        for rows, values, tokens in computed:
            width = values.shape[1]
            logprobs[rows, :width] += values.cpu()
            if tokens is not None:
                ratios[rows, :width] += tokens.ratios.cpu()
                clipped[rows, :width] |= tokens.clipped.cpu()
                teaches[rows, :width] |= tokens.teaches.cpu()
        return StepGradients(_summed(shares), logprobs, TokenOutcomes(ratios, clipped, teaches))

    def gradient_terms(self, model: PreTrainedModel, micro_batches: Iterable[MicroBatch]) -> dict[str, float]:
        """Compute gradient/*: norms and cosines of the policy's loss terms' gradients; accumulates no gradient."""
        network = PolicyForward(model)
        terms = (self.policy_terms(network, micro_batch).terms for micro_batch in micro_batches)
        return gradient_diagnostics.gradient_terms(terms, lora_adapters.trainable(network))

    def _select_tensors(self, micro_batch: MicroBatch) -> UpdateTensors:
        mask = micro_batch.batch.mask
        return self.tensors.select(micro_batch.rows, mask.shape[1]).to(mask.device)


def _shares(name: str, outputs: LossOutputs) -> list[tuple[str, Tensor]]:
    """Return a micro-batch's loss and metrics by name, on its device."""
    return [(name, outputs.loss.detach()), *outputs.metrics.items()]


def _summed(shares: list[tuple[str, Tensor]]) -> dict[str, float]:
    """Sum by name; all numbers are read from the device at once."""
    sums: defaultdict[str, float] = defaultdict(float)
    if shares:
        numbers = torch.stack([share.double() for _, share in shares]).tolist()
        for (name, _), number in zip(shares, numbers, strict=True):
            sums[name] += number
    return sums
