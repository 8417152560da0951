"""Metrics of an iteration and of an evaluation: pure functions from what was played and what the policy said about it.

Names, units and meanings stand in `metrics`; the Echo Trap watch that reads the values is `echo_trap`. A value that
cannot be computed is left out: no function here returns NaN or infinity.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from statistics import stdev

import torch
from torch import Tensor

from trainer.algorithms.group_filter import FilterResult, group_stats
from trainer.algorithms.kl_estimators import MAX_LOG_RATIO
from trainer.journal.events import Turn
from trainer.metrics.registry import TERM_PREFIX, finite
from trainer.metrics.statistics import mean
from trainer.metrics.text import ngrams
from trainer.rollout.trajectory import Trajectory

COMPARED_PROMPTS = 32  # the cost of comparing them grows with the square
Z_95 = 1.959963984540054


def rollout_metrics(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Everything about an iteration's rollout that follows from the trajectories alone; empty for none."""
    turns = [turn for trajectory in trajectories for turn in trajectory.turns]
    thoughts = [trajectory.ids[start:end] for trajectory in trajectories for start, end in trajectory.thought_spans]
    return reward_metrics([t.total_reward for t in trajectories], [t.group for t in trajectories]) | finite(
        {
            "success/rate": mean(t.success for t in trajectories),
            **term_means(trajectories),
            **turn_metrics(turns),
            "turns/mean": mean(len(t.turns) for t in trajectories),
            "actions/mean": mean(t.actions for t in trajectories),
            "length/think": mean(len(thought) for thought in thoughts),
            "diversity/think_distinct_2": distinct(thoughts, 2),
            "diversity/think_repetition": mean(
                repeated for thought in thoughts if (repeated := repetition(thought)) is not None
            ),
            "diversity/actions_in_group": distinct_in_group(
                [t.group for t in trajectories], [first_answer(t) for t in trajectories]
            ),
        }
    )


def reward_metrics(rewards: Sequence[float], groups: Sequence[int]) -> dict[str, float]:
    """reward/*: from the raw rewards R(τ) of trajectories and the group of each."""
    if len(rewards) != len(groups):
        raise ValueError(f"{len(rewards)} rewards but {len(groups)} group ids: each trajectory has one of each")
    by_group: dict[int, list[float]] = {}
    for group, reward in zip(groups, rewards, strict=True):
        by_group.setdefault(group, []).append(reward)
    stats = [group_stats(members) for members in by_group.values()]
    return finite(
        {
            "reward/mean": mean(rewards),
            "reward/std": stdev(rewards) if len(rewards) > 1 else None,
            "reward/in_group_std": mean(group.std for group in stats),
            "reward/zero_std_share": mean(not group.informative for group in stats),
        }
    )


def filter_metrics(filtered: FilterResult) -> dict[str, float]:
    """filter/*: what the uncertainty filter kept."""
    return finite({"filter/kept_share": filtered.kept_share, "filter/kept_std": filtered.kept_std})


def turn_metrics(turns: Sequence[Turn]) -> dict[str, float]:
    """Format, length and effect of turns; the entropy is the mean over all sampled tokens.

    Of an engine that does not tell it (vLLM) it is estimated: the mean of −log p over what is drawn from p.
    """
    known = [(entropy, turn.tokens) for turn in turns if (entropy := _entropy(turn)) is not None]
    tokens = sum(count for _, count in known)
    executed = [action for turn in turns for action in turn.actions if action.status == "executed"]
    return finite(
        {
            "format/valid_rate": mean(turn.format_valid for turn in turns),
            "entropy/mean": sum(entropy * count for entropy, count in known) / tokens if tokens else None,
            "length/response": mean(turn.tokens for turn in turns),
            "length/truncated_share": mean(turn.truncated for turn in turns),
            "actions/effective_rate": mean(action.effective for action in executed),
        }
    )


def _entropy(turn: Turn) -> float | None:
    if turn.entropy is None and turn.logprob is not None:
        return -turn.logprob
    return turn.entropy


def term_means(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """reward/term/<name>: mean over trajectories of each named reward term, summed over the trajectory's turns."""
    totals: dict[str, float] = defaultdict(float)
    for trajectory in trajectories:
        for turn in trajectory.turns:
            for name, amount in turn.terms.items():
                totals[name] += amount
    return {TERM_PREFIX + name: total / len(trajectories) for name, total in totals.items()}


def first_answer(trajectory: Trajectory) -> tuple[str, ...]:
    """What the trajectory tried first, as action names (an unknown action as it was written, in lower case)."""
    if not trajectory.turns:
        return ()
    return tuple(action.name or action.text.lower() for action in trajectory.turns[0].actions)


def distinct(thoughts: Iterable[Sequence[int]], n: int) -> float | None:
    """Distinct / all n-grams over a collection of thoughts; None when none is as long as n."""
    seen: set[tuple[int, ...]] = set()
    total = 0
    for thought in thoughts:
        grams = ngrams(thought, n)
        seen.update(grams)
        total += len(grams)
    return len(seen) / total if total else None


def repetition(thought: Sequence[int], n: int = 4) -> float | None:
    """1 − unique / total n-grams inside one thought; None for one shorter than n."""
    grams = ngrams(thought, n)
    return 1 - len(set(grams)) / len(grams) if grams else None


def distinct_in_group(groups: Sequence[int], answers: Sequence[Hashable]) -> float | None:
    """How differently groups answer: (distinct − 1) / (size − 1), averaged over groups of at least two; else None."""
    members: dict[int, list[Hashable]] = {}
    for group, answer in zip(groups, answers, strict=True):
        members.setdefault(group, []).append(answer)
    return mean((len(set(found)) - 1) / (len(found) - 1) for found in members.values() if len(found) > 1)


def mismatch_metrics(trainer_logprobs: Tensor, sampler_logprobs: Tensor, mask: Tensor) -> dict[str, float]:
    """mismatch/*: how far the trainer's probabilities of the sampled tokens are from the sampler's.

    Args:
        trainer_logprobs, sampler_logprobs: (B, T) log-probabilities of the same tokens under the same weights.
        mask: (B, T) policy tokens; pairs of which one is not finite are left out.
    """
    chosen = mask.bool()
    difference = (trainer_logprobs[chosen].double() - sampler_logprobs[chosen].double()).detach()
    difference = difference[difference.isfinite()].clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    if difference.numel() == 0:
        return {}
    ratio = difference.exp()
    weight = ratio / ratio.mean()
    return finite(
        {
            "mismatch/k3": max(0.0, float((torch.expm1(difference) - difference).mean())),
            "mismatch/chi2": float((ratio**2).mean()) - 1,
            "mismatch/ess": min(1.0, 1 / float((weight**2).mean())),
        }
    )


def first_thoughts(trajectories: Sequence[Trajectory]) -> tuple[list[list[int]], list[list[int]]] | None:
    """Distinct first prompts and one thought for each, as token ids; None for fewer than two: nothing to compare.

    At most COMPARED_PROMPTS, for every thought is scored after every prompt.
    """
    first: dict[tuple[int, ...], list[int]] = {}
    for trajectory in trajectories:
        start, end = trajectory.thought_spans[0]
        if end > start and len(first) < COMPARED_PROMPTS:
            first.setdefault(tuple(trajectory.ids[:start]), trajectory.ids[start:end])
    return ([list(prompt) for prompt in first], list(first.values())) if len(first) > 1 else None


def reasoning_metrics(scores: Tensor) -> dict[str, float]:
    """reasoning/*: whether thoughts depend on what was read.

    Args:
        scores: (N, N) with scores[i, j] = ℓ_j(z_i) = Σ_t log π(z_i,t | x_j, z_i,<t): the whole thought of prompt i,
            scored after prompt j; one thought per distinct prompt, not normalised by length.
    Returns:
        Nothing for fewer than two prompts, where there is nothing to tell apart, or when a score is NaN.
    Source: RAGEN-2, arXiv 2604.06268.
    """
    if scores.ndim != 2 or scores.shape[0] != scores.shape[1]:
        raise ValueError(f"scores must be a square matrix of thoughts × prompts, not {tuple(scores.shape)}")
    n = scores.shape[0]
    if n < 2 or bool(scores.isnan().any()):
        return {}
    exact = scores.detach().double()
    own = exact.diagonal()
    anyone = torch.logsumexp(exact, dim=1) - math.log(n)
    best = exact == exact.amax(dim=1, keepdim=True)  # thoughts that fit several prompts equally are shared among them
    return finite(
        {
            "reasoning/mutual_information": float((own - anyone).mean()),
            "reasoning/conditional_entropy": -float(own.mean()),
            "reasoning/retrieval_accuracy": float((best.diagonal() / best.sum(dim=1)).mean()),
        }
    )


def evaluation_metrics(
    suite: str,
    successes: Sequence[bool],
    rewards: Sequence[float],
    turns: Sequence[int],
    actions: Sequence[int],
) -> dict[str, float]:
    """eval/<suite>/*: from one trajectory per fixed prompt; empty for none."""
    if not successes:
        return {}
    low, high = wilson(sum(successes), len(successes))
    values = {
        "success": mean(successes),
        "success_low": low,
        "success_high": high,
        "reward": mean(rewards),
        "turns": mean(turns),
        "actions": mean(actions),
    }
    return finite({f"eval/{suite}/{name}": value for name, value in values.items()})


def wilson(successes: float, trials: float, z: float = Z_95) -> tuple[float, float]:
    """Wilson's score interval of a success rate, 95 % unless `z` says otherwise; (0, 1) for no trials.

    Parts of a trial count where trials are not independent and fewer are meant than were made.
    """
    if not 0 <= successes <= trials:
        raise ValueError(f"{successes} successes in {trials} trials cannot be")
    if trials == 0:
        return 0.0, 1.0
    rate, weight = successes / trials, z * z / trials
    centre = (rate + weight / 2) / (1 + weight)
    half = z * math.sqrt(rate * (1 - rate) / trials + weight / (4 * trials)) / (1 + weight)
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == trials else min(1.0, centre + half)
    return low, high


def pass_at_k(successes: int, trials: int, k: int) -> float | None:
    """Chance that at least one of k trajectories drawn from `trials` without replacement succeeds; None if k > trials.

    Source: Chen et al. 2021, eq. 1 (unbiased, unlike 1 − (1 − rate)^k).
    """
    if not 0 <= successes <= trials or k < 1:
        raise ValueError(f"pass@{k} of {successes} successes in {trials} trials cannot be")
    if k > trials:
        return None
    return 1.0 - math.comb(trials - successes, k) / math.comb(trials, k)
