from __future__ import annotations

import pytest

import envs
from webapp.trajectories.board_text import board_text


@pytest.mark.parametrize(
    ("name", "action", "shown"),
    [
        ("Sokoban", "Up", "@"),
        ("Bandit", "Dragon", "Dragon: pulled, paid"),
        ("Countdown", "1 + 1", "Target"),
        ("WebShop", "search[chair]", "“chair” › page 1"),
    ],
)
def test_every_kind_of_board_reads_as_text(name: str, action: str, shown: str) -> None:
    env = envs.make(name)
    env.reset(seed=3)
    assert board_text(env.board().model_dump(exclude_none=True))
    env.step(action)
    assert shown.lower() in board_text(env.board().model_dump(exclude_none=True)).lower()


def test_no_board_is_no_text() -> None:
    assert board_text({}) == ""
