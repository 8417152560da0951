"""The fixed evaluation: equal for every run and iteration, separate from training, summarised with its interval."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.config.run import RunConfig
from trainer.evaluation.suite_runner import group_plans, pass_at_ks, success_interval, summarize
from trainer.evaluation.suites import get_suites
from trainer.metrics.registry import get_spec
from trainer.metrics.statistics import wilson_interval
from trainer.rollout.trajectory import Trajectory
from trainer.seeds import Purpose, derive


def evaluation_run(**evaluation):
    return RunConfig.model_validate({"evaluation": evaluation})


def test_the_evaluation_is_the_same_in_every_run():
    def questions(config, iteration=0):
        return [(p.seed, p.dynamics_seeds, p.sampling_seeds) for p in group_plans(config, iteration)]

    base = RunConfig()
    assert questions(base) == questions(base, 30) == questions(RunConfig(seed=9, iterations=3))
    longer = RunConfig.model_validate({"evaluation": {"prompts": 300}})
    assert questions(longer)[:256] == questions(base)


def test_evaluation_prompts_are_distinct_and_held_out():
    seeds = [plan.seed for plan in group_plans(RunConfig(), 0)]
    assert len(set(seeds)) == 256
    trained = {derive(123, Purpose.INITIAL_STATE, i, g) for i in range(1, 41) for g in range(8)}
    assert not trained & set(seeds)


def test_names_of_trajectories_differ_by_evaluation_and_prompt():
    names = [plan.members[0] for iteration in (0, 10) for plan in group_plans(RunConfig(), iteration)]
    assert len(set(names)) == 512


def test_more_samples_extend_the_first_ones():
    one, four = (
        group_plans(evaluation_run(prompts=5), 0),
        group_plans(evaluation_run(prompts=5, samples_per_prompt=4), 0),
    )
    for single, several in zip(one, four, strict=True):
        assert single.seed == several.seed
        assert single.dynamics_seeds == several.dynamics_seeds[:1]
        assert single.sampling_seeds == several.sampling_seeds[:1]
        assert len(several.members) == 4
    drawn = [seed for plan in four for seed in (*plan.dynamics_seeds, *plan.sampling_seeds)]
    assert len(set(drawn)) == len(drawn)


def test_every_suite_uses_the_same_seeds_under_its_own_ids():
    config = evaluation_run(prompts=5, samples_per_prompt=2)
    own, other = group_plans(config, 10), group_plans(config, 10, suite=1)
    assert [plan.seed for plan in own] == [plan.seed for plan in other]
    assert not {name for plan in own for name in plan.members} & {name for plan in other for name in plan.members}


def played(*by_prompt):
    """Trajectories without turns, by prompt: how each ended."""
    return [
        Trajectory(id=f"{group}-{member}", group=group, member=member, success=success)
        for group, outcomes in enumerate(by_prompt)
        for member, success in enumerate(outcomes)
    ]


def test_a_finished_evaluation_is_summarised_with_its_interval():
    (suite,) = get_suites(RunConfig())
    event, values = summarize(suite, 10, played(*[[n < 3] for n in range(8)]), final=True)
    assert (event.suite, event.prompts, event.samples, event.iteration, event.final) == ("Sokoban", 8, 1, 10, True)
    assert event.success == values["eval/Sokoban/success"] == pytest.approx(3 / 8)
    assert (event.success_low, event.success_high) == wilson_interval(3, 8)
    assert event.pass_at == {}
    assert not any("pass@" in name for name in values)


def test_several_samples_give_pass_at_k():
    (suite,) = get_suites(evaluation_run(samples_per_prompt=3))
    outcomes = [[True, False, False], [False, False, False], [True, True, False]]
    event, values = summarize(suite, 0, played(*outcomes), final=False)
    assert (event.prompts, event.samples) == (3, 3)
    for k in (1, 2, 3):
        every_choice = [[any(chosen) for chosen in combinations(prompt, k)] for prompt in outcomes]
        chance = sum(sum(prompt) / len(prompt) for prompt in every_choice) / 3
        assert event.pass_at[k] == values[f"eval/Sokoban/pass@{k}"] == pytest.approx(chance)
    assert event.pass_at.keys() == {1, 2, 3}
    for name in values:
        get_spec(name)


def test_a_prompt_with_too_few_samples_is_excluded_from_larger_k():
    (suite,) = get_suites(evaluation_run(samples_per_prompt=2))
    event, _ = summarize(suite, 0, played([True, True], [False]), final=False)
    assert event.pass_at == {1: 0.5, 2: 1.0}


@pytest.mark.parametrize(
    "samples, k", [(1, []), (2, [1, 2]), (3, [1, 2, 3]), (8, [1, 2, 4, 8]), (12, [1, 2, 4, 8, 12])]
)
def test_k_grows_in_powers_of_two_up_to_all_samples(samples, k):
    assert pass_at_ks(samples) == k


def test_perfectly_correlated_samples_count_as_one():
    alike = [[n < 4] * 6 for n in range(10)]
    assert success_interval(alike) == pytest.approx(wilson_interval(4, 10))


def test_independent_samples_count_in_full():
    assert success_interval([[True, True, False]] * 10) == pytest.approx(wilson_interval(20, 30))


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=6), min_size=1, max_size=12))
def test_the_interval_contains_the_rate_and_is_at_least_as_wide_as_for_independence(by_prompt):
    flat = [outcome for prompt in by_prompt for outcome in prompt]
    low, high = success_interval(by_prompt)
    rate = sum(flat) / len(flat)
    assert 0 <= low <= rate + 1e-12
    assert rate - 1e-12 <= high <= 1
    narrowest = wilson_interval(sum(flat), len(flat))
    assert high - low >= narrowest[1] - narrowest[0] - 1e-9
