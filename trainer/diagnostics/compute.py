"""Metrics of a rollout, an update's importance ratio and an evaluation, as pure functions.

Names, units and meanings are in trainer/metrics. Values that cannot be computed are omitted: no function here returns
NaN or infinity.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from statistics import stdev

import torch
from torch import Tensor

from trainer.algorithms.group_filter import FilterResult, GroupStats, group_stats
from trainer.algorithms.kl_estimators import MAX_LOG_RATIO
from trainer.journal.events import GroupScore, Turn
from trainer.metrics.registry import TERM_PREFIX, finite
from trainer.metrics.statistics import mean, wilson_interval
from trainer.metrics.text import ngrams, template
from trainer.rollout.trajectory import Trajectory

GARBLED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ue000-\uf8ff\ufffd]")
"""Characters that texts do not have: control characters, halves of a pair, private ones, parts of a letter."""


TRAJECTORY_METRICS: dict[str, Callable[[Sequence[Trajectory]], float | None]] = {
    "success/rate": lambda played: mean(trajectory.success for trajectory in played),
    "turns/mean": lambda played: mean(len(trajectory.turns) for trajectory in played),
    "actions/mean": lambda played: mean(trajectory.actions for trajectory in played),
    "length/think": lambda played: mean(map(len, get_thoughts(played))),
    "diversity/think_distinct_2": lambda played: distinct(get_thoughts(played), 2),
    "diversity/think_repetition": lambda played: mean(
        share for thought in get_thoughts(played) if (share := repetition(thought)) is not None
    ),
    "diversity/actions_in_group": lambda played: distinct_in_group(
        [trajectory.group for trajectory in played], [first_answer(trajectory) for trajectory in played]
    ),
    "diversity/thoughts_in_group": lambda played: thought_variety(played),
    "diversity/commonest_thought": lambda played: commonest_thought(played),
}
"""Metrics of a rollout's trajectories. A new metric is an entry here and a row in trainer/metrics/table.py."""

TURN_METRICS: dict[str, Callable[[Sequence[Turn]], float | None]] = {
    "format/valid_rate": lambda turns: mean(bool(turn.format_valid) for turn in turns),
    "entropy/mean": lambda turns: token_entropy(turns),
    "length/response": lambda turns: mean(turn.tokens or 0 for turn in turns),
    "length/truncated_share": lambda turns: mean(turn.truncated for turn in turns),
    "format/garbled_share": lambda turns: mean(is_garbled(turn.response) for turn in turns),
    "tools/failed_share": lambda turns: mean(
        action.call.failed for turn in turns for action in turn.actions if action.call is not None
    ),
    "actions/effective_rate": lambda turns: mean(
        action.effective for turn in turns for action in turn.actions if action.status == "executed"
    ),
    "claims/true_share": lambda turns: mean(claim.true for turn in turns for claim in turn.claims or ()),
    "claims/per_turn": lambda turns: mean(len(turn.claims) for turn in turns if turn.claims is not None),
}
"""Metrics of all turns of a rollout, extended in the same way."""

REWARD_METRICS: dict[str, Callable[[Sequence[float], Sequence[GroupStats]], float | None]] = {
    "reward/mean": lambda rewards, groups: mean(rewards),
    "reward/std": lambda rewards, groups: stdev(rewards) if len(rewards) > 1 else None,
    "reward/in_group_std": lambda rewards, groups: mean(group.std for group in groups),
    "reward/zero_std_share": lambda rewards, groups: mean(not group.informative for group in groups),
}
"""Metrics of the raw rewards R(τ) of trajectories and their groups' statistics, extended in the same way."""


def rollout_metrics(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Compute all metrics of an iteration's rollout from its trajectories; empty for none."""
    rewards = reward_metrics([t.total_reward for t in trajectories], [t.group for t in trajectories])
    turns = turn_metrics([turn for trajectory in trajectories for turn in trajectory.turns])
    values = {name: compute(trajectories) for name, compute in TRAJECTORY_METRICS.items()}
    return rewards | finite(values | term_means(trajectories)) | turns


def turn_metrics(turns: Sequence[Turn]) -> dict[str, float]:
    """Compute format, length, entropy and effect of turns; empty for none."""
    return finite({name: compute(turns) for name, compute in TURN_METRICS.items()})


def is_garbled(text: str) -> bool:
    """True if a text has characters that no text of a tokenizer with sound weights has, such as half of a letter."""
    return GARBLED.search(text) is not None


def reward_metrics(rewards: Sequence[float], groups: Sequence[int]) -> dict[str, float]:
    """Compute reward/* from the raw rewards R(τ) of trajectories and the group of each."""
    if len(rewards) != len(groups):
        raise ValueError(f"{len(rewards)} rewards but {len(groups)} group ids: each trajectory has one of each")
    members: dict[int, list[float]] = {}
    for group, reward in zip(groups, rewards, strict=True):
        members.setdefault(group, []).append(reward)
    stats = [group_stats(of_group) for of_group in members.values()]
    return finite({name: compute(rewards, stats) for name, compute in REWARD_METRICS.items()})


def get_thoughts(trajectories: Sequence[Trajectory]) -> list[list[int]]:
    """Return the token ids of every thought."""
    return [trajectory.ids[start:end] for trajectory in trajectories for start, end in trajectory.thought_spans]


def token_entropy(turns: Sequence[Turn]) -> float | None:
    """Compute the mean entropy over all sampled tokens of the turns; None without any.

    If the engine does not report it (vLLM), the estimate is the mean of −log p over samples from p.
    """
    entropies = [(entropy, turn.tokens or 0) for turn in turns if (entropy := _turn_entropy(turn)) is not None]
    tokens = sum(count for _, count in entropies)
    return sum(entropy * count for entropy, count in entropies) / tokens if tokens else None


def _turn_entropy(turn: Turn) -> float | None:
    if turn.entropy is None and turn.logprob is not None:
        return -turn.logprob
    return turn.entropy


def filter_metrics(filtered: FilterResult) -> dict[str, float]:
    """Compute filter/*: groups kept by the uncertainty filter."""
    return finite({"filter/kept_share": filtered.kept_share, "filter/kept_std": filtered.kept_std})


def sampling_metrics(rounds: int, scores: Iterable[GroupScore]) -> dict[str, float]:
    """Compute rollout/*: rounds of dynamic sampling, and the groups of all rounds with unequal rewards."""
    informative = sum(score.std > 0 for score in scores)
    return finite({"rollout/sampling_rounds": rounds, "rollout/informative_groups": informative})


def term_means(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Compute reward/term/<name>: mean over trajectories of each reward term, summed over the trajectory's turns."""
    totals: dict[str, float] = defaultdict(float)
    for trajectory in trajectories:
        for turn in trajectory.turns:
            for name, amount in turn.terms.items():
                totals[name] += amount
    return {TERM_PREFIX + name: total / len(trajectories) for name, total in totals.items()}


def first_answer(trajectory: Trajectory) -> tuple[str, ...]:
    """Return the first turn's actions by name (unknown actions verbatim, in lower case)."""
    if not trajectory.turns:
        return ()
    return tuple(action.name or action.text.lower() for action in trajectory.turns[0].actions)


def thought_variety(played: Sequence[Trajectory]) -> float | None:
    """Measure the variety of a group's thoughts in the first turn, as text (`distinct_in_group`); None without any."""
    thoughts = [trajectory.turns[0].thought.strip() if trajectory.turns else "" for trajectory in played]
    return distinct_in_group([trajectory.group for trajectory in played], thoughts) if any(thoughts) else None


def commonest_thought(played: Sequence[Trajectory]) -> float | None:
    """Return the share of attempts that begin with the most frequent thought, ignoring numbers; None without any.

    Absolute, unlike the variety within groups: near 0 if every puzzle gets a different thought, 1 in an echo.
    """
    thoughts = [template(trajectory.turns[0].thought) for trajectory in played if trajectory.turns]
    counts = Counter(thought for thought in thoughts if thought)
    return counts.most_common(1)[0][1] / counts.total() if counts else None


def distinct(thoughts: Iterable[Sequence[int]], n: int) -> float | None:
    """Return the ratio of distinct to all n-grams over a collection of thoughts; None if no thought has n tokens."""
    seen: set[tuple[int, ...]] = set()
    total = 0
    for thought in thoughts:
        grams = ngrams(thought, n)
        seen.update(grams)
        total += len(grams)
    return len(seen) / total if total else None


def repetition(thought: Sequence[int]) -> float | None:
    """Return 1 − unique / total 4-grams within one thought; None for a shorter thought."""
    grams = ngrams(thought, 4)
    return 1 - len(set(grams)) / len(grams) if grams else None


def distinct_in_group(groups: Sequence[int], answers: Sequence[Hashable]) -> float | None:
    """Average (distinct − 1) / (size − 1) of the answers over groups of at least two; None without any."""
    members: dict[int, list[Hashable]] = {}
    for group, answer in zip(groups, answers, strict=True):
        members.setdefault(group, []).append(answer)
    return mean((len(set(given)) - 1) / (len(given) - 1) for given in members.values() if len(given) > 1)


def mismatch_metrics(trainer_logprobs: Tensor, sampler_logprobs: Tensor, mask: Tensor) -> dict[str, float]:
    """Compute mismatch/*: the distance between the trainer's and the sampler's probabilities of the sampled tokens.

    Args:
        trainer_logprobs, sampler_logprobs: (B, T) log-probabilities of the same tokens under the same weights.
        mask: (B, T) policy tokens; pairs with a non-finite number are omitted.
    """
    chosen = mask.bool()
    difference = (trainer_logprobs[chosen].double() - sampler_logprobs[chosen].double()).detach()
    difference = difference[difference.isfinite()].clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    if difference.numel() == 0:
        return {}
    ratio, distance = difference.exp(), difference.abs()
    weight = ratio / ratio.mean()
    return finite(
        {
            "mismatch/mean": float(distance.mean()),
            "mismatch/p99": float(distance.kthvalue(math.ceil(0.99 * distance.numel())).values),
            "mismatch/k3": max(0.0, float((torch.expm1(difference) - difference).mean())),
            "mismatch/chi2": float((ratio**2).mean()) - 1,
            "mismatch/ess": min(1.0, 1 / float((weight**2).mean())),
        }
    )


def evaluation_metrics(
    suite: str,
    successes: Sequence[bool],
    rewards: Sequence[float],
    turns: Sequence[int],
    actions: Sequence[int],
) -> dict[str, float]:
    """Compute eval/<suite>/* from one trajectory per fixed prompt; empty for none."""
    if not successes:
        return {}
    low, high = wilson_interval(sum(successes), len(successes))
    values = {
        "success": mean(successes),
        "success_low": low,
        "success_high": high,
        "reward": mean(rewards),
        "turns": mean(turns),
        "actions": mean(actions),
    }
    return finite({f"eval/{suite}/{name}": value for name, value in values.items()})


def pass_at_k(successes: int, trials: int, k: int) -> float | None:
    """Estimate the chance that at least one of k trajectories out of `trials` succeeds; None if k > trials.

    Drawn without replacement. Source: Chen et al. 2021, eq. 1 (unbiased, unlike 1 − (1 − rate)^k).
    """
    if not 0 <= successes <= trials or k < 1:
        raise ValueError(f"pass@{k} of {successes} successes in {trials} trials cannot be")
    if k > trials:
        return None
    return 1.0 - math.comb(trials - successes, k) / math.comb(trials, k)
