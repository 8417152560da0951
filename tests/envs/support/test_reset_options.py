"""Refused options of `reset`."""

from __future__ import annotations

import pytest

import envs
from envs.support.reset_options import read_options
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
    assert read_options(None, ("room",), ("boxes_on_target",)) == {}
    assert read_options({"boxes_on_target": 2, "dynamics_seed": 3}, ("room",), ("boxes_on_target",)) == {
        "boxes_on_target": 2,
        "dynamics_seed": 3,
    }
