"""Best and random play on the fixed puzzles: exact where the answer is known, the same every time."""

from __future__ import annotations

import itertools
from pathlib import Path
from statistics import fmean

import pytest

import envs
from envs.countdown import Countdown
from tests.envs.plugins import offering
from trainer.cli.main import default_config
from trainer.config.run import EnvironmentConfig, EvaluationConfig, RolloutConfig, RunConfig
from trainer.evaluation.reference_play import ReferencePlayError, reference_success
from trainer.evaluation.suite_runner import group_plans
from trainer.evaluation.suites import get_suites
from trainer.rollout.runner import Interrupted


def rates(config: RunConfig) -> tuple[float | None, float | None]:
    """Success of the best and of random play in the run's own suite."""
    (suite, *_) = get_suites(config)
    found = reference_success(suite)
    assert found == reference_success(suite)
    name = f"eval/{suite.name}/success"
    return found.get(f"{name}_best_play"), found.get(f"{name}_random_play")


def test_one_pull_of_two_arms_is_always_or_half_of_the_time_right() -> None:
    best, random = rates(default_config("Bandit"))
    assert best == 1.0
    assert random == pytest.approx(0.5, abs=0.02)


def test_random_equations_use_the_operators_of_the_problems() -> None:
    environment = EnvironmentConfig(
        name="Countdown", settings={"min_numbers": 2, "max_numbers": 2, "operators": "+-", "largest": 9}
    )
    rollout = RolloutConfig(max_turns=1, max_actions_per_turn=1, max_actions=1)
    config = RunConfig(environment=environment, rollout=rollout, evaluation=EvaluationConfig(prompts=64))
    (suite, *_) = get_suites(config)
    chances = []
    for plan in group_plans(suite.config, 0, suite.number):
        env = envs.make("Countdown", environment.settings)
        env.reset(seed=plan.seed)
        assert isinstance(env, Countdown)
        (a, b), target = env.problem.numbers, env.problem.target
        chances.append(fmean(value == target for value in (a + b, b + a, a - b, b - a)))
    best, random = rates(config)
    assert best == 1.0
    assert random == pytest.approx(fmean(chances), abs=0.03)


def test_a_policy_cannot_do_more_actions_than_its_budget() -> None:
    full = default_config("Sokoban")
    short = full.model_copy(update={"rollout": full.rollout.model_copy(update={"max_actions": 1})})
    best, random = rates(full)
    assert best == 1.0
    assert random is not None
    assert 0 < random < 0.5
    best_of_one, random_of_one = rates(short)
    assert best_of_one is not None
    assert 0 < best_of_one < 1
    assert random_of_one is not None
    assert random_of_one < random


def test_ice_limits_even_the_best_play_by_its_exact_chance() -> None:
    rollout = RolloutConfig(max_turns=10, max_actions_per_turn=1, max_actions=7)
    config = RunConfig(
        environment=EnvironmentConfig(name="FrozenLake", settings={"horizon": 7}),
        rollout=rollout,
        evaluation=EvaluationConfig(prompts=64),
    )
    (suite, *_) = get_suites(config)
    chances = []
    for plan in group_plans(suite.config, 0, suite.number):
        env = envs.make("FrozenLake", config.environment.settings)
        env.reset(seed=plan.seed)
        hint = env.hint()
        assert hint is not None
        chances.append(hint.value)
    best, random = rates(config)
    assert best == pytest.approx(fmean(chance for chance in chances if chance is not None))
    assert random is not None
    assert 0.1 < random < best - 0.1


def test_an_environment_in_another_process_is_played_too() -> None:
    shop = default_config("WebShop").model_copy(update={"evaluation": EvaluationConfig(prompts=3)})
    best, random = rates(shop)
    assert best == 1.0
    assert random is not None
    assert random < 1


def test_without_a_solver_there_is_only_random_play(tmp_path: Path) -> None:
    with offering(tmp_path, Silent="tests.envs.broken_env:Silent"):
        config = RunConfig(environment=EnvironmentConfig(name="Silent"), evaluation=EvaluationConfig(prompts=2))
        best, random = rates(config)
    assert best is None
    assert random is not None


def test_an_environment_that_fails_is_reported(tmp_path: Path) -> None:
    with offering(tmp_path, Trouble="tests.envs.broken_env:Trouble"):
        settings = {"when": "step", "how": "fail"}
        config = RunConfig(
            environment=EnvironmentConfig(name="Trouble", settings=settings), evaluation=EvaluationConfig(prompts=2)
        )
        with pytest.raises(ReferencePlayError, match="the environment failed"):
            rates(config)


def test_play_ends_with_its_time_and_with_a_stop_request() -> None:
    (suite, *_) = get_suites(default_config("Sokoban"))
    ticks = itertools.count()
    with pytest.raises(ReferencePlayError, match=r"after 9 s only \d+ games on 256 puzzles were over"):
        reference_success(suite, seconds=9, clock=lambda: float(next(ticks)))

    calls = itertools.count(1)

    def stop() -> None:
        if next(calls) > 20:
            raise Interrupted

    with pytest.raises(Interrupted):
        reference_success(suite, stop)
