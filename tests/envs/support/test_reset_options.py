"""Refused options of `reset`."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest

import envs
from envs.support.reset_options import Kind, read_options
from tests.envs.playable_names import PLAYABLE


def test_options_of_countdown_under_another_name_are_refused_in_words() -> None:
    env = envs.make("Countdown")
    with pytest.raises(ValueError, match=r"no option numbers here: it takes nums, target and dynamics_seed$"):
        env.reset(options={"numbers": [3, 5, 2], "target": 4})
    with pytest.raises(ValueError, match=r"option target of reset needs nums as well"):
        env.reset(options={"target": 4})


@pytest.mark.parametrize("name", PLAYABLE)
def test_each_environment_refuses_an_option_that_it_does_not_take(name: str) -> None:
    env = envs.make(name)
    try:
        with pytest.raises(ValueError, match="no option startt here"):
            env.reset(seed=1, options={"startt": 1, "dynamics_seed": 2})
    finally:
        env.close()


def test_parts_are_independent_of_each_other_and_none_is_required() -> None:
    parts: tuple[Mapping[str, Kind], ...] = ({"room": "a text"}, {"boxes_on_target": "a whole number"})
    assert read_options(None, *parts) == {}
    given = {"boxes_on_target": 2, "dynamics_seed": 3}
    assert read_options(given, *parts) == given


@pytest.mark.parametrize(
    ("name", "option", "kind"),
    [
        ("Sokoban", "room", "a text"),
        ("Sokoban", "boxes_on_target", "a whole number"),
        ("FrozenLake", "map", "a text"),
        ("Sudoku", "grid", "a text"),
        ("RubiksCube", "turns", "a text"),
        ("Game2048", "board", "a text"),
        ("Countdown", "nums", "a list of whole numbers"),
        ("Bandit", "dynamics_seed", "a whole number"),
    ],
)
@pytest.mark.parametrize("value", [1.5, math.inf, [None], {}, True])
def test_a_value_of_another_type_is_refused_in_words(name: str, option: str, kind: str, value: object) -> None:
    env = envs.make(name)
    given = {option: value} | ({"target": 4} if option == "nums" else {})
    with pytest.raises(ValueError, match=f"the option {option} of reset must be {kind}, not "):
        env.reset(seed=1, options=given)
