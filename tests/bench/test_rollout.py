"""Rollout benchmark: equal work for all contenders, medians and ratios of the table."""

import itertools

import pytest

from bench import rollout
from bench.lib import random_models, rollout_workload


@pytest.fixture(scope="module")
def model():
    return random_models.build("tiny")


@pytest.fixture(scope="module")
def work():
    return rollout_workload.make(rows=6, turns=3, group=3, vocabulary=300, lengths=(2, 7))


def recorded(model, play, work):
    """Input shapes (rows, tokens) of every forward pass of a rollout."""
    shapes_read = []
    handle = model.base_model.register_forward_pre_hook(
        lambda module, args, kwargs: shapes_read.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
    )
    try:
        assert play(work) == work.tokens
    finally:
        handle.remove()
    return shapes_read


def test_groups_share_the_first_prompt_and_all_prompts_start_with_the_instruction(work):
    assert work.firsts[0] == work.firsts[1] == work.firsts[2] != work.firsts[3]
    assert len({tuple(first[: rollout_workload.INSTRUCTION]) for first in work.firsts}) == 1
    assert {len(seen) for row in work.observations for seen in row} == {rollout_workload.OBSERVATION}
    assert len({length for row in work.lengths for length in row}) > 2
    assert work.context == max(
        rollout_workload.FIRST + 2 * rollout_workload.OBSERVATION + sum(lengths) for lengths in work.lengths
    )


def test_the_sampler_prefills_each_token_once_and_generate_every_turn_again(model, work):
    ours = recorded(model, rollout_workload.OurSampler(model).play, work)
    theirs = recorded(model, rollout_workload.Generate(model).play, work)
    assert max(width for _, width in ours[3:]) == rollout_workload.OBSERVATION + 1
    firsts = [width for (_, before), (_, width) in itertools.pairwise([(0, 1), *theirs]) if width > 1 and before == 1]
    assert firsts[0] == rollout_workload.FIRST
    assert firsts[2] > rollout_workload.FIRST + 2 * rollout_workload.OBSERVATION


def test_ratios_are_medians_without_the_first_round_and_flagged_below_target(work):
    ours, theirs = rollout.OURS, rollout.GENERATE
    comparison = rollout.RolloutComparison("work", work, dict.fromkeys((ours, theirs)))
    comparison.clock = {ours: [99.0, 1.0, 2.0, 1.0], theirs: [1.0, 3.0, 4.0, 4.0]}
    comparison.processor = {ours: [1.0, 1.0, 1.0, 1.0], theirs: [9.0, 5.0, 6.0, 7.0]}
    figures = comparison.figures(theirs)
    assert (figures["ratio"], figures["processor_ratio"]) == (3.0, 6.0)
    assert comparison.rate(ours) == work.tokens
    (row,) = comparison.rows()
    assert row.endswith("| 3 × | 6 × | ≥ 3 × ✓ |")
    comparison.clock[theirs] = [1.0, 2.0, 2.0, 2.0]
    assert comparison.rows()[0].endswith("missed |")


def test_a_wrong_number_of_sampled_tokens_ends_the_benchmark(work):
    clock = iter(range(100))
    lazy = rollout.RolloutContender(lambda work: work.tokens - 1, lambda: float(next(clock)))
    with pytest.raises(RuntimeError, match=f"{rollout.OURS} sampled {work.tokens - 1} tokens instead of {work.tokens}"):
        rollout.RolloutComparison("work", work, {rollout.OURS: lazy}).play()
