"""Losses of policy and critic: pure functions on tensors, with the metrics beside the maths. No optimiser lives here.

Shapes and masks as in `advantages`. Every loss takes the `Totals` of the whole update batch, so that the sum over its
micro-batches (and of their gradients) is exactly the loss of the batch taken at once; metrics add up in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from trainer.algorithms.advantages import only

Aggregation = Literal["token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"]
KLEstimator = Literal["k1", "k2", "k3", "abs"]
MAX_LOG_RATIO = 20.0
MAX_KL = 10.0


@dataclass(frozen=True)
class LossTotals:
    """Denominators of an update batch: policy tokens, and sequences that have at least one.

    A sequence is a row, or all rows of a trajectory that lies in several.
    """

    tokens: int
    sequences: int

    @classmethod
    def of(cls, mask: Tensor, trajectory: Tensor | None = None) -> LossTotals:
        """Counted from a (B, T) mask, and from the (B,) ids of the trajectories of which the rows are (parts).

        Add the totals of several masks with `+`, unless they share a trajectory.
        """
        chosen = mask.bool()
        some = chosen.any(dim=1)
        sequences = int(some.sum()) if trajectory is None else len(torch.unique(trajectory[some]))
        return cls(tokens=int(chosen.sum()), sequences=sequences)

    def __add__(self, other: LossTotals) -> LossTotals:
        return LossTotals(self.tokens + other.tokens, self.sequences + other.sequences)


@dataclass(frozen=True)
class PolicyLoss:
    """The policy's loss and this (micro-)batch's share of the metrics: sum both over the micro-batches of an update.

    Scalars, all detached but `loss`: the share of policy tokens whose gradient the lower or the upper clip cut off, the
    same for the dual clip, and the estimates k1 and k3 of KL(old ‖ new).
    """

    loss: Tensor
    clip_fraction_low: Tensor
    clip_fraction_high: Tensor
    clip_fraction_dual: Tensor
    kl_k1: Tensor
    kl_k3: Tensor


@dataclass(frozen=True)
class ValueLoss:
    """The critic's loss and this (micro-)batch's share of the clip fraction: sum both over the micro-batches."""

    loss: Tensor
    clip_fraction: Tensor


def precise(values: Tensor) -> Tensor:
    """Half precision becomes float32: exponentials and sums of many tokens need it. Wider types stay."""
    return values.float() if values.dtype in (torch.bfloat16, torch.float16) else values


def aggregate(
    per_token: Tensor,
    mask: Tensor,
    how: Aggregation,
    totals: LossTotals | None = None,
    length: int | None = None,
    tokens: Tensor | None = None,
) -> Tensor:
    """One number from token losses. A sequence without policy tokens counts nowhere; an empty mask gives 0.

    Args:
        per_token: (B, T); read on the mask only.
        how: `token-mean`: every token weighs the same. `seq-mean-token-sum`: mean over sequences of their sums.
            `seq-mean-token-mean`: every sequence weighs the same. `seq-mean-token-sum-norm`: the sum of everything over
            the fixed `length`, a constant that does not depend on the batch (Dr. GRPO).
        totals: denominators of the whole update batch when this is one of its micro-batches; None: of `mask` itself.
        tokens: (B,) policy tokens of the sequence each row is a part of; None: every row is a sequence.
    """
    totals = totals or LossTotals.of(mask)
    known = only(per_token, mask)
    match how:
        case "token-mean":
            return known.sum() / max(totals.tokens, 1)
        case "seq-mean-token-sum":
            return known.sum() / max(totals.sequences, 1)
        case "seq-mean-token-mean":
            counts = (mask.bool().sum(dim=1) if tokens is None else tokens).clamp(min=1)
            return (known.sum(dim=1) / counts).sum() / max(totals.sequences, 1)
        case "seq-mean-token-sum-norm":
            if length is None or length < 1:
                raise ValueError("seq-mean-token-sum-norm divides by a fixed length: give `length`, at least 1")
            return known.sum() / length
    raise ValueError(f"unknown aggregation {how!r}")


def policy_loss(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    mask: Tensor,
    *,
    clip_low: float,
    clip_high: float,
    dual_clip: float | None = None,
    aggregation: Aggregation = "token-mean",
    totals: LossTotals | None = None,
    length: int | None = None,
    tokens: Tensor | None = None,
) -> PolicyLoss:
    """PPO's clipped objective with separate bounds (clip-higher) and an optional dual clip.

    Args:
        logprobs, old_logprobs: (B, T) log-probability of each token under the policy now and when it was sampled.
        advantages: (B, T), constants.
        clip_low, clip_high: the ratio counts between 1 − clip_low and 1 + clip_high.
        dual_clip: bound c > 1 on the ratio of tokens with a negative advantage; None = off.
        aggregation, totals, length, tokens: as in `aggregate`.
    Source: Schulman et al. 2017, eq. 7; Yu et al. 2025 (clip-higher); Ye et al. 2020 (dual clip).
    """
    totals = totals or LossTotals.of(mask)
    advantages = only(precise(advantages.detach()), mask)
    log_ratio = only(precise(logprobs) - precise(old_logprobs.detach()), mask)
    log_ratio = log_ratio.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    ratio = log_ratio.exp()
    per_token = torch.maximum(-advantages * ratio, -advantages * ratio.clamp(1 - clip_low, 1 + clip_high))
    if dual_clip is not None:
        bounded = torch.minimum(per_token, -advantages * dual_clip)
        per_token = torch.where(advantages < 0, bounded, per_token)

    loss = aggregate(per_token, mask, aggregation, totals, length, tokens)

    def share(of_tokens: Tensor) -> Tensor:
        return aggregate(of_tokens.float(), mask, "token-mean", totals)

    with torch.no_grad():
        falling, rising = advantages < 0, advantages > 0
        return PolicyLoss(
            loss=loss,
            clip_fraction_low=share(falling & (ratio < 1 - clip_low)),
            clip_fraction_high=share(rising & (ratio > 1 + clip_high)),
            clip_fraction_dual=share(falling & (ratio > (float("inf") if dual_clip is None else dual_clip))),
            kl_k1=share(-log_ratio),
            kl_k3=share(ratio - log_ratio - 1),
        )


def value_loss(
    values: Tensor,
    old_values: Tensor,
    returns: Tensor,
    mask: Tensor,
    *,
    clip: float | None,
    aggregation: Aggregation = "token-mean",
    totals: LossTotals | None = None,
    length: int | None = None,
) -> ValueLoss:
    """Half the squared error of the critic; with `clip`, the worse of the plain and the clipped prediction counts.

    Args:
        values: (B, T) the critic's predictions now; `old_values` those made before the update.
        returns: (B, T) targets, constants.
        clip: how far a prediction may move from its old value before the clip takes its gradient; None = off.
    Source: Schulman et al. 2017, its published implementation.
    """
    totals = totals or LossTotals.of(mask)
    values = only(precise(values), mask)
    old_values, returns = only(precise(old_values.detach()), mask), only(precise(returns.detach()), mask)
    plain = (values - returns) ** 2
    if clip is None:
        worse, cut = plain, torch.zeros_like(plain, dtype=torch.bool)
    else:
        bounded = (torch.clamp(values, old_values - clip, old_values + clip) - returns) ** 2
        worse, cut = torch.maximum(plain, bounded), bounded > plain
    loss = 0.5 * aggregate(worse, mask, aggregation, totals, length)
    return ValueLoss(loss=loss, clip_fraction=aggregate(cut.float(), mask, "token-mean", totals))


def truncated_weights(trainer_logprobs: Tensor, sampler_logprobs: Tensor, mask: Tensor, cap: float) -> Tensor:
    """min(π_trainer / π_sampler, cap) of every policy token, a constant; 0 off the mask.

    A sampler that is not quite the trainer (other kernels, other precision) draws from another distribution. The tokens
    it drew count as if the trainer had drawn them when their gradient is weighed with this ratio; the cap bounds the
    variance that rare tokens bring.

    Args:
        trainer_logprobs, sampler_logprobs: (B, T) log-probabilities of the same tokens under the same weights, before
            the update.
        cap: C, at least 1.
    Source: Yao et al. 2025, "Your efficient RL framework secretly brings you off-policy RL training".
    """
    difference = only(precise(trainer_logprobs.detach()) - precise(sampler_logprobs.detach()), mask)
    return only(difference.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp().clamp(max=cap), mask)


def explained_variance(returns: Tensor, values: Tensor, mask: Tensor) -> float | None:
    """1 − Var(returns − values) / Var(returns) over the mask; None where the returns do not vary."""
    chosen = mask.bool()
    targets, errors = returns[chosen].double(), (returns - values)[chosen].double()
    if targets.numel() < 2:
        return None
    variance = float(targets.var(correction=0))
    if variance <= 1e-12:
        return None
    return 1.0 - float(errors.var(correction=0)) / variance


def entropy_from_logits(logits: Tensor) -> Tensor:
    """(…, V) logits → (…) entropy of the softmax in nats. Logits of −∞ (tokens ruled out) add nothing."""
    return entropy_from_logprobs(torch.log_softmax(precise(logits), dim=-1))


def entropy_from_logprobs(log_probabilities: Tensor) -> Tensor:
    """(…, V) log-probabilities of a distribution → (…) its entropy in nats. Those of −∞ add nothing."""
    probabilities = log_probabilities.exp()
    return -(probabilities * log_probabilities.masked_fill(probabilities == 0, 0.0)).sum(dim=-1)


def kl_penalty(logprobs: Tensor, reference_logprobs: Tensor, estimator: KLEstimator) -> Tensor:
    """(B, T) estimate of KL(policy ‖ reference) for each sampled token.

    k1 is unbiased and may be negative, k2 has low variance and a bias, k3 is unbiased and never negative; `abs` is the
    absolute log-ratio. k3 is bounded by ±10 and its log-ratio by ±20, so that one odd token cannot overflow.
    Source: Schulman 2020, "Approximating KL divergence".
    """
    log_ratio = precise(logprobs) - precise(reference_logprobs)
    match estimator:
        case "k1":
            return log_ratio
        case "abs":
            return log_ratio.abs()
        case "k2":
            return 0.5 * log_ratio**2
        case "k3":
            back = (-log_ratio).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
            return (back.exp() - back - 1).clamp(-MAX_KL, MAX_KL)
    raise ValueError(f"unknown KL estimator {estimator!r}")
