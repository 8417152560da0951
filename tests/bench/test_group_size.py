"""The simulated update of the trap's bandit."""

from __future__ import annotations

from bench.learning.group_size import push


def test_an_undivided_update_is_the_gradient_of_the_expected_reward() -> None:
    """E[A (a − p)] = p (1 − p) (0.25 − 0.15) (1 − 1/N): the group's mean contains the trajectory itself."""
    for size in (4, 16):
        expected = 0.5 * 0.5 * 0.1 * (1 - 1 / size)
        assert abs(push(0.5, size, divide=False) - expected) < 0.002


def test_dividing_by_the_spread_pushes_small_groups_to_the_sure_arm() -> None:
    assert push(0.5, 8) < -0.03 < 0 < 0.01 < push(0.5, 16)
    assert push(0.5, 8, keep=0.25) > 0.1, "the widest groups are those in which the better arm has paid"
