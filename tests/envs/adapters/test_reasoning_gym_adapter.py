"""reasoning-gym's generators as questions of one turn, with the real package."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from gymnasium.error import ResetNeeded
from pydantic import ValidationError

import envs
from envs.base import Hint, TextEnv
from envs.pool import EnvironmentPool

pytest.importorskip("reasoning_gym", reason="reasoning-gym is not installed: pip install reasoning-gym")

VARIANTS = envs.variants("ReasoningGym")
SLOW = {"arc_agi", "rearc", "futoshiki", "sokoban", "figlet_font", "group_anagrams"}
"""Generators that read a corpus or search for a puzzle: seconds for each question."""
QUICK = [variant for variant in VARIANTS if variant not in SLOW]


def make(variant: str, **arguments: Any) -> TextEnv:
    return envs.make("ReasoningGym", {"id": variant, "arguments": arguments})


def test_all_generators_are_variants_with_their_category() -> None:
    assert len(VARIANTS) > 90
    assert VARIANTS["chain_sum"] == "arithmetic"
    assert VARIANTS["mini_sudoku"] == "games"
    assert "composite" not in VARIANTS


@pytest.mark.parametrize("variant", QUICK)
def test_a_question_follows_from_its_seed_and_its_own_answer_is_right(variant: str) -> None:
    one, other = make(variant), make(variant)
    question, _ = one.reset(seed=2**62)
    assert question
    assert other.reset(seed=2**62, options={"dynamics_seed": 5})[0] == question
    hint = one.hint()
    assert hint == other.hint()
    if hint is None:
        return
    _, reward, terminated, truncated, info = one.step(hint.actions[0])
    assert (reward, terminated, truncated) == (pytest.approx(1), True, False)
    assert info["success"]
    assert one.hint() == Hint(distance=0)


def test_a_wrong_answer_ends_the_episode_without_reward() -> None:
    env = make("chain_sum")
    env.reset(seed=1)
    text, reward, terminated, _, info = env.step("none")
    assert text.endswith("\nScore: 0")
    assert (reward, terminated, info["success"]) == (0.0, True, False)
    assert (hint := env.hint())
    assert hint.solvable == "no"
    with pytest.raises(ResetNeeded, match="over"):
        env.step("4")


def test_an_answer_that_a_scorer_cannot_read_scores_nothing_and_gives_the_reason() -> None:
    env = make("prime_factorization")
    env.reset(seed=1)
    text, reward, _, _, info = env.step("what?")
    assert (reward, info["success"]) == (0.0, False)
    assert "the scorer could not read the answer" in text


def test_arguments_reach_the_generator() -> None:
    env = make("chain_sum", min_terms=5, max_terms=5)
    question, _ = env.reset(seed=3)
    assert sum(question.count(sign) for sign in "+-") >= 4


def test_a_copy_is_independent() -> None:
    env = make("mini_sudoku")
    env.reset(seed=3)
    hint = env.hint()
    assert hint
    ahead = copy.deepcopy(env)
    assert ahead.step(hint.actions[0])[4]["success"]
    assert env.hint() == hint
    assert env.step(hint.actions[0])[4]["success"]


def test_the_budget_is_one_answer() -> None:
    spec = envs.spec("ReasoningGym", {"id": "mini_sudoku"})
    assert (spec.max_turns, spec.max_actions_per_turn, spec.max_actions) == (1, 1, 1)
    assert spec.actions == ()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"id": "chainsum"}, "did you mean chain_sum or decimal_chain_sum"),
        ({"arguments": {"min_termz": 3}}, "chain_sum has no 'min_termz': choose among min_terms"),
        ({"arguments": {"min_terms": 0}}, "chain_sum refuses them: min_terms must be positive"),
        ({"arguments": {"seed": 3}}, "seed is set for each question"),
    ],
)
def test_unusable_settings_are_refused_with_a_sentence(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        envs.settings_model("ReasoningGym").model_validate(settings)


def test_it_plays_in_the_sandbox_of_a_run() -> None:
    pool = EnvironmentPool("ReasoningGym", {"id": "gcd"}, step_timeout=60, start_timeout=300)
    try:
        (started,) = pool.start([(4, 5)])
        assert isinstance(started, TextEnv), started
        hint = started.hint()
        assert hint
        assert started.step(hint.actions[0])[4]["success"]
    finally:
        pool.close()
