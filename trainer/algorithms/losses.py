"""Losses of the policy and the critic.

Shapes and masks are the same as in `advantages`. Every loss takes the `LossTotals` of the whole update batch, so that
losses, gradients and metrics of its micro-batches add up to the batch's losses, gradients and metrics.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from trainer.algorithms.advantages import only
from trainer.algorithms.aggregations import AGGREGATIONS, TokenLosses
from trainer.algorithms.kl_estimators import KL_ESTIMATORS, MAX_LOG_RATIO
from trainer.algorithms.objectives import ClipRange, TokenPolicies, get_objective

VALUE_CLIP = 0.5
"""Distance from its old value up to which an update moves a prediction of the critic. Source: RAGEN's code."""


@dataclass(frozen=True)
class LossTotals:
    """Denominators of an update batch: policy tokens, sequences with at least one, and the most tokens of a sequence.

    A sequence is a row, or all rows of a trajectory that is split over several.
    """

    tokens: int
    sequences: int
    max_length: int

    @classmethod
    def of(cls, mask: Tensor, trajectory: Tensor | None = None, max_length: int | None = None) -> LossTotals:
        """Return the totals of a (B, T) mask; `trajectory` (B,) is the trajectory to which each row belongs.

        `max_length` is the most policy tokens that a sequence may have (default: T), which one aggregation reads.
        Add the totals of several masks with `+`, unless they share a trajectory.
        """
        chosen = mask.bool()
        nonempty = chosen.any(dim=1)
        sequences = int(nonempty.sum()) if trajectory is None else len(torch.unique(trajectory[nonempty]))
        return cls(int(chosen.sum()), sequences, max_length or max(mask.shape[1], 1))

    def __add__(self, other: LossTotals) -> LossTotals:
        longest = max(self.max_length, other.max_length)
        return LossTotals(self.tokens + other.tokens, self.sequences + other.sequences, longest)


@dataclass(frozen=True)
class LossInputs:
    """A (micro-)batch of policy tokens, (B, T) unless noted.

    Attributes:
        logprobs, old_logprobs: log-probability of each token under the current policy, and at sampling time.
        advantages: constants.
        mask: policy tokens.
        totals: denominators of the update batch; None: this is the whole update batch.
        tokens: (B,) policy tokens of the sequence that each row belongs to; None: every row is a sequence.
        turns: (B, T) turn of each policy token; None: every row is one turn.
    """

    logprobs: Tensor
    old_logprobs: Tensor
    advantages: Tensor
    mask: Tensor
    totals: LossTotals | None = None
    tokens: Tensor | None = None
    turns: Tensor | None = None


@dataclass(frozen=True)
class ValueLossInputs:
    """`LossInputs` for the critic.

    Attributes:
        values, old_values: (B, T) predictions, now and before the update.
        returns: (B, T) regression targets, constants.
    """

    values: Tensor
    old_values: Tensor
    returns: Tensor
    mask: Tensor
    totals: LossTotals | None = None
    tokens: Tensor | None = None


@dataclass(frozen=True)
class TokenOutcomes:
    """What the objective did with each policy token, (B, T), detached; 0 and False off the mask.

    Attributes:
        ratios: importance ratios that were compared with the bounds.
        clipped: whether a bound cut off the token's gradient (in cispo: limited it).
        teaches: whether the objective has a gradient at the token.
    """

    ratios: Tensor
    clipped: Tensor
    teaches: Tensor


@dataclass(frozen=True)
class LossOutputs:
    """A (micro-)batch's share of the update batch's loss and metrics; shares add up over the micro-batches.

    Attributes:
        metrics: detached scalars by their names in the metric registry.
        tokens: outcomes of the policy's tokens; None for other losses.
    """

    loss: Tensor
    metrics: dict[str, Tensor] = field(default_factory=dict)
    tokens: TokenOutcomes | None = None


def precise(values: Tensor) -> Tensor:
    """Convert half precision to float32, for exponentials and sums over many tokens; wider types are kept."""
    return values.float() if values.dtype in (torch.bfloat16, torch.float16) else values


def aggregate(
    per_token: Tensor,
    mask: Tensor,
    aggregation: str,
    totals: LossTotals | None = None,
    tokens: Tensor | None = None,
) -> Tensor:
    """Reduce per-token losses to a scalar. Sequences without policy tokens do not count; an empty mask gives 0.

    Args:
        per_token: (B, T); read on the mask only.
        aggregation: a name of `AGGREGATIONS`.
        totals, tokens: as in `LossInputs`.
    """
    totals = totals or LossTotals.of(mask)
    counts = (mask.bool().sum(dim=1) if tokens is None else tokens).clamp(min=1)
    denominators = max(totals.tokens, 1), max(totals.sequences, 1), totals.max_length
    return AGGREGATIONS[aggregation](TokenLosses(only(per_token, mask), counts, *denominators))


def policy_loss(
    inputs: LossInputs,
    *,
    clip_low: float,
    clip_high: float,
    dual_clip: float | None = None,
    aggregation: str = "token-mean",
    objective: str = "clip",
) -> LossOutputs:
    """Return the policy's loss: an objective of each token, aggregated.

    Args:
        clip_low, clip_high: the ratio is clipped to 1 − clip_low … 1 + clip_high.
        dual_clip: bound c > 1 on the ratio of tokens with a negative advantage; None = off.
        aggregation: a name of `AGGREGATIONS`.
        objective: a name of `OBJECTIVES`.
    Returns:
        The loss, and the outcome of each token; its metrics are the share of policy tokens whose gradient each bound
        cuts off (in cispo: limits), and the k3 estimate of KL(old ‖ new).
    """
    mask, totals = inputs.mask, inputs.totals or LossTotals.of(inputs.mask)
    advantages = only(precise(inputs.advantages.detach()), mask)
    log_ratio = only(precise(inputs.logprobs) - precise(inputs.old_logprobs.detach()), mask)
    log_ratio = log_ratio.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    turns = torch.zeros_like(mask, dtype=torch.long) if inputs.turns is None else inputs.turns
    tokens = TokenPolicies(only(precise(inputs.logprobs), mask), log_ratio, advantages, mask, turns)
    found = get_objective(objective)(tokens, ClipRange(clip_low, clip_high, dual_clip))
    loss = aggregate(found.losses, mask, aggregation, totals, inputs.tokens)
    with torch.no_grad():
        falling, rising = advantages < 0, advantages > 0
        cut_off = {
            "policy/clip_fraction_low": falling & (found.ratios < 1 - clip_low),
            "policy/clip_fraction_high": rising & (found.ratios > 1 + clip_high),
        }
        if dual_clip is not None and objective == "clip":
            cut_off["policy/clip_fraction_dual"] = falling & (found.ratios > dual_clip)
        shares = cut_off | {"policy/kl_to_rollout": log_ratio.exp() - log_ratio - 1}
        metrics = {name: aggregate(share.float(), mask, "token-mean", totals) for name, share in shares.items()}
        clipped = torch.stack(list(cut_off.values())).any(dim=0) & mask.bool()
        teaches = (falling | rising) & mask.bool()
        if objective != "cispo":
            teaches &= ~clipped
        outcomes = TokenOutcomes(only(found.ratios.detach(), mask), clipped, teaches)
    return LossOutputs(loss, metrics, outcomes)


def value_loss(inputs: ValueLossInputs, *, clip: float = VALUE_CLIP, aggregation: str = "token-mean") -> LossOutputs:
    """Half the squared error of the critic: the larger error of the plain and the clipped prediction.

    Args:
        clip: distance from the old value beyond which a prediction gets no gradient.
        aggregation: a name of `AGGREGATIONS`.
    Returns:
        The loss; its metric is the share of policy tokens without a gradient due to the clip.
    Source: Schulman et al. 2017, its published implementation.
    """
    mask, totals = inputs.mask, inputs.totals or LossTotals.of(inputs.mask)
    values = only(precise(inputs.values), mask)
    old_values = only(precise(inputs.old_values.detach()), mask)
    returns = only(precise(inputs.returns.detach()), mask)
    plain = (values - returns) ** 2
    bounded = (torch.clamp(values, old_values - clip, old_values + clip) - returns) ** 2
    loss = 0.5 * aggregate(torch.maximum(plain, bounded), mask, aggregation, totals, inputs.tokens)
    share = aggregate((bounded > plain).float(), mask, "token-mean", totals)
    return LossOutputs(loss, {"value/clip_fraction": share})


def truncated_weights(trainer_logprobs: Tensor, sampler_logprobs: Tensor, mask: Tensor, cap: float) -> Tensor:
    """Return min(π_trainer / π_sampler, cap) for every policy token as a constant; 0 off the mask.

    A sampler with other kernels or another precision than the trainer draws from another distribution. Weighting the
    gradients of its tokens by this ratio corrects for that; the cap bounds the variance of rare tokens.

    Args:
        trainer_logprobs, sampler_logprobs: (B, T) log-probabilities of the same tokens under the same weights, before
            the update.
        cap: C, at least 1.
    Source: Yao et al. 2025, "Your efficient RL framework secretly brings you off-policy RL training".
    """
    difference = only(precise(trainer_logprobs.detach()) - precise(sampler_logprobs.detach()), mask)
    return only(difference.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp().clamp(max=cap), mask)


def explained_variance(returns: Tensor, values: Tensor, mask: Tensor) -> float | None:
    """Return 1 − Var(returns − values) / Var(returns) over the mask; None if the returns do not vary."""
    chosen = mask.bool()
    targets, errors = returns[chosen].double(), (returns - values)[chosen].double()
    if targets.numel() < 2:
        return None
    variance = float(targets.var(correction=0))
    if variance <= 1e-12:
        return None
    return 1.0 - float(errors.var(correction=0)) / variance


def entropy_from_logprobs(log_probabilities: Tensor) -> Tensor:
    """Map (…, V) log-probabilities to the (…) entropy in nats. Log-probabilities of −∞ add nothing."""
    probabilities = log_probabilities.exp()
    return -(probabilities * log_probabilities.masked_fill(probabilities == 0, 0.0)).sum(dim=-1)


def kl_penalty(logprobs: Tensor, reference_logprobs: Tensor, estimator: str) -> Tensor:
    """Estimate KL(policy ‖ reference) for each sampled token, (B, T), with a member of `KL_ESTIMATORS`."""
    return KL_ESTIMATORS[estimator](precise(logprobs) - precise(reference_logprobs))
