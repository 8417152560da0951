"""Dependence of thoughts on their prompts: mutual information, its z-scores, and retrieval of the prompt.

X is everything the policy read before a thought Z. ℓ_j(z) = Σ_t log π(z_t | x_j, z_<t) is the log-probability of a
thought after prompt j. Source: RAGEN-2, arXiv 2604.06268, and its published code, which also names the z-scores.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import torch
from torch import Tensor

from trainer.metrics.reasoning_table import FIRST_TURN, RETRIEVED
from trainer.metrics.registry import finite
from trainer.rollout.trajectory import Trajectory

MAX_COMPARED_PROMPTS = 32  # the cost of comparing prompts is quadratic
STD_EPSILON = 1e-3
"""Added to standard deviations before z-scores are divided by them (RAGEN-2's `std_eps`)."""
STD_DECAY = 0.9
"""Decay of the moving averages of those standard deviations (RAGEN-2's `ema_decay`)."""

PromptsAndThoughts = tuple[list[list[int]], list[list[int]]]
"""Distinct prompts and one thought for each, as token ids."""


def first_thoughts(trajectories: Sequence[Trajectory]) -> PromptsAndThoughts | None:
    """Return the distinct first prompts and one thought for each, as token ids; None for fewer than two.

    At most MAX_COMPARED_PROMPTS, since every thought is scored after every prompt.
    """
    first: dict[tuple[int, ...], list[int]] = {}
    for trajectory in trajectories:
        start, end = trajectory.thought_spans[0]
        if end > start and len(first) < MAX_COMPARED_PROMPTS:
            first.setdefault(tuple(trajectory.ids[:start]), trajectory.ids[start:end])
    return _pairs(first)


def turn_thoughts(trajectories: Sequence[Trajectory], count: int, seed: int) -> PromptsAndThoughts | None:
    """Return distinct prompts of any turns and one thought for each; None for fewer than two.

    Trajectories are drawn in random order, with one of the turns that have a thought, until there are `count` distinct
    prompts: long trajectories get no extra weight. RAGEN-2 draws with replacement instead.
    """
    generator = random.Random(seed)
    drawn: dict[tuple[int, ...], list[int]] = {}
    for trajectory in generator.sample(list(trajectories), len(trajectories)):
        turns = [turn for turn, (start, end) in enumerate(trajectory.thought_spans) if end > start]
        if turns and len(drawn) < count:
            turn = generator.choice(turns)
            start, end = trajectory.thought_spans[turn]
            prompt = trajectory.prompts.get(turn, trajectory.ids[:start])
            drawn.setdefault(tuple(prompt), trajectory.ids[start:end])
    return _pairs(drawn)


def _pairs(thoughts: dict[tuple[int, ...], list[int]]) -> PromptsAndThoughts | None:
    return ([list(prompt) for prompt in thoughts], list(thoughts.values())) if len(thoughts) > 1 else None


def reasoning_metrics(
    scores: Tensor, lengths: Sequence[int], averages: dict[str, float], family: str = FIRST_TURN
) -> dict[str, float]:
    """Compute <family>/*: the dependence of thoughts on their prompts.

    Args:
        scores: (N, N) with scores[i, j] = ℓ_j(z_i): the whole thought of prompt i, scored after prompt j; one thought
            per distinct prompt, not normalised by length.
        lengths: tokens of each thought, above 0; ℓ per token is ℓ divided by the length.
        averages: moving averages of earlier iterations, by name; this family's averages are updated.
        family: the first part of the metrics' names.
    Returns:
        Metrics by name; empty for fewer than two prompts, or if a score is NaN.
    """
    if scores.ndim != 2 or scores.shape[0] != scores.shape[1]:
        raise ValueError(f"scores must be a square matrix of thoughts × prompts, not {tuple(scores.shape)}")
    n = scores.shape[0]
    if n < 2 or bool(scores.isnan().any()):
        return {}
    exact = scores.detach().double()
    matching = exact.diagonal()
    values = {
        "mutual_information": float((matching - _marginal(exact)).mean()),
        "conditional_entropy": -float(matching.mean()),
        "retrieval_accuracy": retrieval_accuracy(exact, 1),
        **{f"retrieval_accuracy@{k}": retrieval_accuracy(exact, k) for k in RETRIEVED if k < n},
        **_z_scores(exact, averages, f"{family}/marginal_std_seq", "_seq"),
    }
    per_token = exact / torch.tensor(lengths, dtype=exact.dtype)[:, None]
    values |= _z_scores(per_token, averages, f"{family}/marginal_std", "")
    return finite({f"{family}/{name}": value for name, value in values.items()})


def _marginal(scores: Tensor) -> Tensor:
    """Return the (N,) log-probability of each thought under the uniform mixture of prompts."""
    return torch.logsumexp(scores, dim=1) - math.log(scores.shape[1])


def _z_scores(scores: Tensor, averages: dict[str, float], name: str, suffix: str) -> dict[str, float]:
    """Return mean ℓ_i(z_i) minus the marginal, in standard deviations of the marginals: of this batch, and averaged."""
    marginal = _marginal(scores)
    std = float(marginal.std(unbiased=False))
    if not math.isfinite(std):
        return {}
    averages[name] = STD_DECAY * averages[name] + (1 - STD_DECAY) * std if name in averages else std
    excess = float((scores.diagonal() - marginal).mean())
    return {
        f"mi_zscore{suffix}": excess / (std + STD_EPSILON),
        f"mi_zscore_ema{suffix}": excess / (averages[name] + STD_EPSILON),
    }


def retrieval_accuracy(scores: Tensor, k: int) -> float:
    """Share of thoughts with their own prompt among the k that make them most likely; ties are broken at random."""
    matching = scores.diagonal()[:, None]
    better, equal = (scores > matching).sum(dim=1), (scores == matching).sum(dim=1)
    return float(((k - better) / equal).clamp(0, 1).double().mean())
