"""Contract of every environment of our own; tests/envs/adapters has that of the variants of other packages."""

import copy
import math

import gymnasium
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

import envs
from envs.base import Board, EnvSpec, Hint, StepInfo, TextEnv
from envs.registry import BUILT_IN

NAMES = list(BUILT_IN)
NAMED = [name for name in NAMES if envs.spec(name).actions]
"""Environments with named actions; in the others any text is an action."""
BOARD = TypeAdapter(Board)


def choices_of(env: TextEnv) -> list[str]:
    """Some actions of the current state: all by name, or the advised ones and a few arbitrary texts."""
    if env.env_spec.actions:
        return list(env.env_spec.actions)
    advice = env.hint()
    return [*(advice.actions if advice else ()), "1 + 1", "", "what?"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("error")
def test_every_environment_passes_gymnasiums_own_checker(name):
    check_env(gymnasium.make(f"echoscope/{name}-v0").unwrapped)


@pytest.mark.parametrize("name", NAMES)
def test_the_description_is_available_before_the_first_state(name):
    spec = envs.spec(name)
    assert isinstance(spec, EnvSpec)
    assert spec.name == name
    assert len(spec.instruction) < 120
    assert all(len(symbol) == 1 for symbol in spec.vocabulary)


@pytest.mark.parametrize("name", NAMES)
def test_text_uses_the_symbols_of_the_vocabulary(name):
    env = envs.make(name)
    for seed in range(20):
        text, _ = env.reset(seed=seed)
        assert text in env.observation_space
        if env.env_spec.vocabulary:
            assert set(text) <= set(env.env_spec.vocabulary) | {"\n"}


@pytest.mark.parametrize("name", NAMED)
def test_an_unknown_action_costs_nothing_and_changes_nothing(name):
    env = envs.make(name)
    before, _ = env.reset(seed=5)
    text, reward, terminated, truncated, info = env.step("Jump")
    assert (text, reward, terminated, truncated) == (before, 0.0, False, False)
    assert info == {"success": False, "effective": False, "valid": False, "actual": None}


@pytest.mark.parametrize("name", NAMED)
def test_actions_are_read_in_any_case(name):
    env, other = envs.make(name), envs.make(name)
    env.reset(seed=5)
    other.reset(seed=5)
    action = env.env_spec.actions[0]
    assert env.step(action.upper()) == other.step(f" {action.lower()} ")


@pytest.mark.parametrize("name", NAMES)
def test_stepping_before_a_reset_or_after_the_end_raises(name):
    env = envs.make(name)
    with pytest.raises(ResetNeeded, match="reset"):
        env.step("anything")
    env.reset(seed=1)
    over = False
    while not over:
        advice = env.hint()
        _, _, terminated, truncated, _ = env.step(advice.actions[0])
        over = terminated or truncated
    with pytest.raises(ResetNeeded, match="the episode is over"):
        env.step("anything")


def play(env: TextEnv, seed: int, dynamics: int, choices: list[int]):
    """Everything observable of an episode."""
    seen = [env.reset(seed=seed, options={"dynamics_seed": dynamics}), env.env_spec.actions, env.board(), env.hint()]
    for choice in choices:
        actions = choices_of(env)
        step = env.step(actions[choice % len(actions)])
        seen += [step, env.board(), env.hint()]
        StepInfo.model_validate(step[4])
        BOARD.validate_python(env.board().model_dump())
        assert isinstance(env.hint(), Hint)
        if step[2] or step[3]:
            break
    return seen


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=15)
@given(seed=st.integers(0, 2**63), dynamics=st.integers(0, 2**63), choices=st.lists(st.integers(0, 3), max_size=10))
def test_an_episode_replayed_is_the_same_episode(name, seed, dynamics, choices):
    env = envs.make(name)
    first = play(env, seed, dynamics, choices)
    assert play(env, seed, dynamics, choices) == first
    assert play(envs.make(name), seed, dynamics, choices) == first


@pytest.mark.parametrize("name", NAMES)
def test_a_copy_is_independent_of_the_original(name):
    env = envs.make(name)
    env.reset(seed=2, options={"dynamics_seed": 4})
    before = env.render(), env.board(), env.hint()
    ahead = copy.deepcopy(env)
    action = env.hint().actions[0]
    steps = [ahead.step(action)]
    assert (env.render(), env.board(), env.hint()) == before
    assert [env.step(action)] == steps
    assert (env.render(), env.board(), env.hint()) == (ahead.render(), ahead.board(), ahead.hint())


@pytest.mark.parametrize("name", NAMES)
def test_a_group_shares_its_start_whatever_the_dynamics_seed(name):
    env = envs.make(name)
    starts = {env.reset(seed=11, options={"dynamics_seed": member})[0] for member in range(16)}
    assert len(starts) == 1


@pytest.mark.parametrize("name", NAMES)
def test_without_a_seed_starts_differ_but_follow_from_the_first_seed(name):
    def starts():
        env = envs.make(name)
        env.reset(seed=3)
        return [env.reset()[0] for _ in range(12)]

    assert starts() == starts()
    assert len(set(starts())) > 1


@pytest.mark.parametrize("name", NAMED)
def test_its_own_actions_are_in_the_action_space_and_others_are_not(name):
    env = envs.make(name)
    env.action_space.seed(0)
    assert {env.action_space.sample() for _ in range(100)} == set(env.env_spec.actions)
    assert env.env_spec.actions[0].upper() in env.action_space
    assert "Jump" not in env.action_space
    assert 3 not in env.action_space


@pytest.mark.parametrize("name", [name for name in NAMES if name not in NAMED])
@given(action=st.text(max_size=60))
def test_without_named_actions_any_text_is_an_action(name, action):
    env = envs.make(name)
    env.reset(seed=3)
    assert action in env.action_space
    assert 3 not in env.action_space
    text, reward, *_, info = env.step(action)
    assert text in env.observation_space
    assert math.isfinite(reward)
    StepInfo.model_validate(info)
