"""Values of positions and classes of actions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webapp.trajectories.mistakes.budgets import Limits
from webapp.trajectories.mistakes.values import classify_loss, position_value


@given(distance=st.integers(1, 50), left=st.integers(0, 100))
def test_a_best_action_costs_nothing_and_a_wasted_one_more_the_fewer_are_spare(distance: int, left: int) -> None:
    value = position_value({"distance": distance}, left)
    assert value is not None
    assert 0 <= value <= 1
    assert (value == 0) == (distance > left)
    if distance <= left:
        best, wasted = (
            position_value({"distance": distance - 1}, left - 1),
            position_value({"distance": distance}, left - 1),
        )
        assert best in (value, 1.0)
        assert wasted is not None
        assert wasted < value
        more = (position_value({"distance": distance}, left + 1) or 0) - value
        assert more < value - wasted + 1e-12


def test_the_solver_decides_what_is_lost_and_what_is_unknown() -> None:
    assert position_value({"solvable": "no", "distance": None}, 9) == 0
    assert position_value({"solvable": "unknown"}, 9) is None
    assert position_value(None, 9) is None
    assert position_value({"actions": ["Up"], "distance": None}, 9) == 1
    assert position_value({"distance": 0}, 0) == 1


@pytest.mark.parametrize(
    ("loss", "name"), [(0.0999, None), (0.1, "inaccuracy"), (0.2, "mistake"), (0.3, "blunder"), (1.0, "blunder")]
)
def test_classes_begin_at_their_thresholds(loss: float, name: str | None) -> None:
    assert classify_loss(loss) == name


def test_a_dead_end_is_at_least_a_mistake() -> None:
    assert classify_loss(0.0, dead_end=True) == classify_loss(0.15, dead_end=True) == "mistake"
    assert classify_loss(0.5, dead_end=True) == "blunder"


def test_actions_left_are_those_of_both_budgets() -> None:
    limits = Limits(turns=3, actions_per_turn=2, actions=5)
    assert limits.total == 5
    assert [limits.left(0, 0, 0), limits.left(0, 1, 1), limits.left(1, 0, 2)] == [5, 4, 3]
    assert limits.left(2, 1, 3) == 1  # the turn has room for one action only
    assert limits.left(2, 2, 4) == 0
