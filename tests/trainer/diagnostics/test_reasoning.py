"""Mutual information of prompts and thoughts, its z-scores, retrieval, and the choice of thoughts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from trainer.diagnostics.reasoning import (
    MAX_COMPARED_PROMPTS,
    first_thoughts,
    reasoning_metrics,
    retrieval_accuracy,
    turn_thoughts,
)
from trainer.metrics.reasoning_table import FAMILIES
from trainer.metrics.registry import METRICS, get_spec
from trainer.rollout.trajectory import Trajectory


def measured(scores: Tensor, lengths: Sequence[int] | None = None, family: str = "reasoning") -> dict[str, float]:
    return reasoning_metrics(scores, lengths or [1] * len(scores), {}, family)


def random_scores(n: int, seed: int) -> tuple[Tensor, list[int]]:
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 40, (n,), generator=generator)
    return -lengths[:, None] * torch.rand(n, n, generator=generator) * 3, lengths.tolist()


def test_state_specific_thoughts_have_maximal_mutual_information() -> None:
    scores = torch.full((4, 4), -1000.0)
    scores.fill_diagonal_(-10.0)
    found = measured(scores)
    assert found["reasoning/mutual_information"] == pytest.approx(math.log(4))
    assert found["reasoning/conditional_entropy"] == pytest.approx(10.0)
    assert found["reasoning/retrieval_accuracy"] == 1.0
    assert found["reasoning/mi_zscore_seq"] == pytest.approx(math.log(4) / 0.001), "all marginals are equal"


def test_a_template_has_zero_information_and_chance_accuracy() -> None:
    found = measured(torch.full((4, 4), -10.0))
    assert found["reasoning/mutual_information"] == pytest.approx(0.0, abs=1e-9)
    assert found["reasoning/retrieval_accuracy"] == 0.25
    assert found["reasoning/retrieval_accuracy@2"] == 0.5
    assert found["reasoning/mi_zscore"] == pytest.approx(0.0, abs=1e-9)


@given(st.integers(2, 6), st.integers(0, 10_000))
def test_mutual_information_never_exceeds_the_logarithm_of_the_number_of_prompts(n: int, seed: int) -> None:
    scores = 50 * torch.randn(n, n, generator=torch.Generator().manual_seed(seed))
    assert measured(scores)["reasoning/mutual_information"] <= math.log(n) + 1e-9


@given(st.integers(2, 12), st.integers(0, 10_000))
def test_z_scores_match_their_definition_by_loops(n: int, seed: int) -> None:
    scores, lengths = random_scores(n, seed)
    found = measured(scores, lengths)
    for suffix, divisors in (("_seq", [1] * n), ("", lengths)):
        table = [[float(scores[i, j]) / divisors[i] for j in range(n)] for i in range(n)]
        marginal = [math.log(sum(math.exp(x) for x in row) / n) for row in table]
        mean = sum(marginal) / n
        std = math.sqrt(sum((m - mean) ** 2 for m in marginal) / n)
        wanted = sum(table[i][i] - marginal[i] for i in range(n)) / n / (std + 1e-3)
        assert found[f"reasoning/mi_zscore{suffix}"] == pytest.approx(wanted, rel=1e-6, abs=1e-9)


@given(st.integers(2, 12), st.integers(0, 10_000), st.sampled_from([1, 2, 4, 8]))
def test_retrieval_counts_the_own_prompt_among_the_likeliest(n: int, seed: int, k: int) -> None:
    scores, lengths = random_scores(n, seed)
    hits = [i in sorted(range(n), key=lambda j: -float(scores[i, j]))[:k] for i in range(n)]
    assert retrieval_accuracy(scores, k) == pytest.approx(sum(hits) / n)
    found = measured(scores, lengths)
    assert (f"reasoning/retrieval_accuracy@{k}" in found) == (1 < k < n)


def test_equal_prompts_share_the_retrieval() -> None:
    scores = torch.tensor([[0.0, 0.0, -1.0, 1.0]] * 4)
    # own ranks: tied second and third, tied second and third, fourth, first
    assert retrieval_accuracy(scores, 2) == pytest.approx((0.5 + 0.5 + 0 + 1) / 4)
    assert retrieval_accuracy(scores, 3) == pytest.approx((1 + 1 + 0 + 1) / 4)


def test_moving_averages_are_kept_by_family() -> None:
    averages: dict[str, float] = {}
    stds = []
    for seed in range(3):
        scores, lengths = random_scores(6, seed)
        found = reasoning_metrics(scores, lengths, averages, "reasoning_turns")
        marginal = torch.logsumexp(scores.double(), 1)
        stds.append(float(marginal.std(unbiased=False)))
        excess = found["reasoning_turns/mi_zscore_seq"] * (stds[-1] + 1e-3)
        smooth = stds[0]
        for std in stds[1:]:
            smooth = 0.9 * smooth + 0.1 * std
        assert found["reasoning_turns/mi_zscore_ema_seq"] == pytest.approx(excess / (smooth + 1e-3))
    assert set(averages) == {"reasoning_turns/marginal_std", "reasoning_turns/marginal_std_seq"}


def test_every_value_has_a_row_in_the_table() -> None:
    scores, lengths = random_scores(9, 0)
    for family in FAMILIES:
        found = measured(scores, lengths, family)
        assert set(found) == {name for name in METRICS if name.startswith(f"{family}/")}
        assert all(get_spec(name).section == "exploration" for name in found)


def test_impossible_scores_are_skipped_and_not_reported() -> None:
    assert measured(torch.zeros(1, 1)) == {}
    assert measured(torch.full((2, 2), math.nan)) == {}
    averages: dict[str, float] = {}
    found = reasoning_metrics(torch.full((2, 2), -math.inf), [1, 1], averages)
    assert all(math.isfinite(value) for value in found.values())
    assert averages == {}, "nothing that is not finite is remembered"
    with pytest.raises(ValueError, match="square"):
        measured(torch.zeros(2, 3))


def played(number: int, thoughts: Sequence[int], *, first: int = 0, windowed: bool = False) -> Trajectory:
    """A trajectory with a thought of so many tokens in each turn; its first prompt is [1000 + first]."""
    trajectory = Trajectory(id=str(number), group=0, member=number)
    for turn, length in enumerate(thoughts):
        trajectory.append_prompt([1000 + first] if turn == 0 else [2000 + 10 * number + turn])
        start = len(trajectory.ids)
        if windowed and turn:
            trajectory.prompts[turn] = [9000 + 10 * number + turn]
        trajectory.append_response([7] * (length + 1), [0.0] * (length + 1), [0.0] * (length + 1), turn)
        trajectory.thought_spans.append((start, start + length))
    return trajectory


def test_thoughts_of_any_turn_follow_the_prompt_they_were_sampled_after() -> None:
    pairs = turn_thoughts([played(n, [2, 3, 4], first=n) for n in range(6)], 6, seed=1)
    assert pairs is not None
    for prompt, thought in zip(*pairs, strict=True):
        turn = sum(token >= 2000 for token in prompt)
        assert len(thought) == 2 + turn
        assert len(prompt) == 1 + sum(length + 2 for length in [2, 3, 4][:turn])
    assert {len(thought) for thought in pairs[1]} > {2}, "not only first turns"


def test_a_windowed_turn_is_compared_with_its_window() -> None:
    pairs = turn_thoughts([played(n, [0, 3], first=n, windowed=True) for n in range(4)], 4, seed=0)
    assert pairs is not None
    assert sorted(prompt[0] for prompt in pairs[0]) == [9001, 9011, 9021, 9031]
    assert all(len(prompt) == 1 for prompt in pairs[0])


def test_long_trajectories_weigh_no_more_than_short_ones() -> None:
    rollout = [played(0, [1], first=0), *(played(n, [1] * 9, first=n) for n in range(1, 4))]
    drawn: Counter[bool] = Counter()
    for seed in range(400):
        pairs = turn_thoughts(rollout, 2, seed)
        assert pairs is not None
        drawn.update(prompt == [1000] for prompt in pairs[0])
    assert drawn[True] / sum(drawn.values()) == pytest.approx(1 / 4, abs=0.05), "one of four, not one of 28"


def test_the_choice_follows_from_the_seed_and_has_distinct_prompts() -> None:
    rollout = [played(n, [2, 2], first=n % 2) for n in range(20)]
    one, same, other = (turn_thoughts(rollout, 8, seed) for seed in (3, 3, 4))
    assert one == same != other
    assert one is not None
    assert len({tuple(prompt) for prompt in one[0]}) == len(one[0]) == 8


def test_nothing_is_compared_without_two_distinct_prompts() -> None:
    assert turn_thoughts([], 8, 0) is None
    assert turn_thoughts([played(0, [0, 0]), played(1, [0], first=1)], 8, 0) is None
    assert turn_thoughts([played(n, [2]) for n in range(5)], 8, 0) is None
    assert first_thoughts([played(n, [2]) for n in range(5)]) is None


def test_first_thoughts_are_at_most_the_limit() -> None:
    pairs = first_thoughts([played(n, [2, 5], first=n) for n in range(MAX_COMPARED_PROMPTS + 8)])
    assert pairs is not None
    assert len(pairs[0]) == MAX_COMPARED_PROMPTS
    assert {len(thought) for thought in pairs[1]} == {2}
