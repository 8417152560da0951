"""FrozenLake: maps, slips, and the chance of success under optimal play."""

import hashlib
import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import envs
from envs.frozen_lake import ACTIONS, FrozenLakeSettings, MapError, parse, success_within

CLASSIC = "SFFF\nFHFH\nFFFH\nHFFG"


def test_lakes_and_slips_of_the_first_seeds_are_pinned():
    env = envs.make("FrozenLake")
    seen = []
    for seed in range(200):
        seen.append(env.reset(seed=seed)[0])
        for action in itertools.cycle(("Right", "Down")):
            text, _, terminated, _, _ = env.step(action)
            seen.append(text)
            if terminated or len(seen) % 10 == 0:
                break
    assert hashlib.sha256("\n\n".join(seen).encode()).hexdigest()[:16] == "2c14e88b62e3e195"


@given(seed=st.integers(0, 2**60), size=st.integers(2, 7), frozen=st.floats(0.3, 1))
def test_a_lake_always_has_a_path_from_start_to_goal(seed, size, frozen):
    env = envs.make("FrozenLake", {"size": size, "frozen": frozen, "slippery": False})
    text, _ = env.reset(seed=seed)
    assert text.count("P") == text.count("G") == 1
    for _ in range(size * size):
        text, reward, terminated, _, info = env.step(env.hint().actions[0])
        if terminated:
            break
    assert (reward, info["success"], text.count("√")) == (1.0, True, 1)


def test_start_goal_and_holes_are_spread_like_the_reference():
    env = envs.make("FrozenLake")
    starts, goals, holes = Counter(), Counter(), 0
    for seed in range(1000):
        env.reset(seed=seed)
        starts[env.player] += 1
        goals[env.goal] += 1
        holes += len(env.lake.holes)
    assert 2.5 < holes / 1000 < 2.9
    assert len(starts) == len(goals) == 16
    assert max(starts.values()) < 110


def test_members_of_a_group_share_the_lake_and_slip_independently():
    env = envs.make("FrozenLake")
    ways = set()
    for member in range(16):
        start, _ = env.reset(seed=4, options={"dynamics_seed": member, "map": CLASSIC})
        assert start == "P___\n_O_O\n___O\nO__G"
        way = []
        for action in ("Down", "Down", "Right", "Down"):
            text, _, terminated, _, info = env.step(action)
            way.append((text, info["actual"]))
            if terminated:
                break
        ways.add(tuple(way))
    assert len(ways) > 8


@given(st.integers(0, 2**60), st.lists(st.sampled_from(ACTIONS), min_size=1, max_size=10))
def test_a_slip_is_reported_and_never_goes_backwards(seed, actions):
    env = envs.make("FrozenLake")
    env.reset(seed=seed)
    opposite = {"Left": "Right", "Right": "Left", "Up": "Down", "Down": "Up"}
    moves = {"Left": (0, -1), "Right": (0, 1), "Up": (-1, 0), "Down": (1, 0)}
    for action in actions:
        row, column = env.player
        text, reward, terminated, _, info = env.step(action)
        went = info["actual"] or action
        assert info["actual"] != action
        assert went != opposite[action]
        down, right = moves[went]
        wanted = (min(max(row + down, 0), 3), min(max(column + right, 0), 3))
        assert env.player == wanted
        assert info["effective"] == (wanted != (row, column))
        assert reward == float(info["success"]) == float("√" in text)
        assert terminated == ("√" in text or "X" in text)
        if terminated:
            break


def test_without_slips_actions_are_exact_and_the_instruction_has_no_warning():
    env = envs.make("FrozenLake", {"slippery": False})
    env.reset(options={"map": CLASSIC})
    for action in ("Down", "Down", "Right", "Right", "Down", "Right"):
        assert action in env.hint().actions
        _, _, terminated, _, info = env.step(action)
        assert info["actual"] is None
    assert terminated
    assert "slippery" not in env.env_spec.instruction
    assert "slippery" in envs.spec("FrozenLake").instruction


def test_the_value_is_the_success_rate_of_optimal_play():
    """Success rate of play by value iteration with a shrinking horizon."""
    lake = parse(CLASSIC)
    values = success_within(lake, True, 30)
    env = envs.make("FrozenLake", {"horizon": 30})
    env.reset(options={"map": CLASSIC})
    assert env.hint().value == values[30, 0]
    wins = 0
    for seed in range(1200):
        env.reset(seed=seed, options={"map": CLASSIC})
        for left in range(30, 0, -1):
            cell = env.player[0] * 4 + env.player[1]
            chances = [np.mean(values[left - 1, lake.outcomes(cell, action, slippery=True)]) for action in range(4)]
            _, reward, terminated, _, _ = env.step(ACTIONS[int(np.argmax(chances))])
            if terminated:
                wins += reward
                break
    assert wins / 1200 == pytest.approx(values[30, 0], abs=0.05)


def test_the_value_approaches_the_known_optimum_of_the_classic_map():
    assert success_within(parse(CLASSIC), True, 2000)[-1, 0] == pytest.approx(14 / 17, abs=1e-6)


@given(st.integers(0, 2**60), st.integers(3, 6))
def test_without_slips_every_advised_action_reduces_the_distance(seed, size):
    env = envs.make("FrozenLake", {"slippery": False, "size": size})
    env.reset(seed=seed)
    distance = env.hint().distance
    while distance:
        env.step(env.hint().actions[-1])
        distance -= 1
        assert env.hint().distance == distance
    assert env.hint().value == 1.0


def test_advice_about_lost_won_and_distant_places():
    env = envs.make("FrozenLake", {"slippery": False})
    env.reset(options={"map": "PO\n_G"})
    env.step("Right")
    assert env.hint().solvable == "no"
    assert env.hint().reason == "the player is in a hole"
    assert env.board().rows == [" X", " G"]
    env.reset(options={"map": "PO\nOG"})
    assert (env.hint().solvable, env.hint().reason) == ("no", "no way leads to the goal")
    far = envs.make("FrozenLake", {"slippery": False, "horizon": 2})
    far.reset(options={"map": "P____G"})
    assert (far.hint().actions, far.hint().value, far.hint().distance) == (["Right"], 0.0, 5)


def test_the_board_is_drawn_in_the_themes_characters():
    env = envs.make("FrozenLake", {"slippery": False})
    env.reset(options={"map": "PG\nO_"})
    assert (env.board().theme, env.board().rows) == ("frozen_lake", ["@G", "O "])
    env.step("Right")
    assert env.board().rows == [" +", "O "]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "equally long"),
        ("PG\n_", "equally long"),
        ("PZ\n_G", "'Z'"),
        ("PP\n_G", "exactly one"),
        ("P" + "_" * 30 + "G", "at most 20"),
    ],
)
def test_invalid_maps_are_refused_with_the_reason(text, message):
    with pytest.raises(MapError, match=message):
        envs.make("FrozenLake").reset(options={"map": text})


def test_settings_out_of_range_are_refused():
    for wrong in ({"size": 1}, {"frozen": 0}, {"horizon": 0}, {"max_steps": 0}):
        with pytest.raises(ValidationError, match=next(iter(wrong))):
            FrozenLakeSettings(**wrong)


def test_the_environment_ends_an_episode_only_if_configured():
    env = envs.make("FrozenLake", {"slippery": False, "max_steps": 2})
    env.reset(options={"map": CLASSIC})
    assert [env.step(action)[2:4] for action in ("Up", "hop", "Up")] == [(False, False), (False, False), (False, True)]
