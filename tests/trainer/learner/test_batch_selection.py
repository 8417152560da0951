"""Selection of the trajectories of an update from the groups kept by the filter."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trainer.rollout.test_trajectory import turn
from trainer.algorithms.group_filter import keep_groups
from trainer.config.run import AlgorithmConfig
from trainer.learner.batch_selection import select_batch
from trainer.rollout.trajectory import Trajectory

REWARD = st.sampled_from([-1.0, 0.0, 0.5, 10.0])
ROLLOUT = st.lists(st.lists(REWARD, min_size=1, max_size=4), min_size=1, max_size=6)


def played(group: int, member: int, reward: float, environment: int = 0) -> Trajectory:
    trajectory = Trajectory(id=f"{group}-{member}", group=group, member=member, environment=environment)
    trajectory.turns.append(turn(0, reward, 1))
    return trajectory


def rollout(rewards: list[list[float]]) -> list[Trajectory]:
    """Groups 10, 20, …: ids are not positions."""
    groups = enumerate(rewards, start=1)
    return [played(10 * g, m, reward) for g, group in groups for m, reward in enumerate(group)]


@given(rewards=ROLLOUT, method=st.sampled_from(["none", "std", "soft"]), data=st.data())
def test_the_filter_selects_every_member_in_any_order(
    rewards: list[list[float]], method: str, data: st.DataObject
) -> None:
    algorithm = AlgorithmConfig.model_validate({"group_filter": method, "group_filter_keep": 0.5})
    mixed = data.draw(st.permutations(rollout(rewards)))
    choice = select_batch(mixed, algorithm)
    order = list(dict.fromkeys(t.group for t in mixed))
    assert [score.group for score in choice.scores] == order
    members = [[t.total_reward for t in mixed if t.group == group] for group in order]
    alone = keep_groups(members, algorithm.group_filter, 0.5, algorithm.drop_zero_std)
    assert [score.kept for score in choice.scores] == alone.kept
    stays = {group for group, keep in zip(order, alone.kept, strict=True) if keep}
    assert choice.kept == [t for t in mixed if t.group in stays]
    weight = dict(zip(order, alone.weights, strict=True))
    assert choice.weights == [weight[t.group] for t in choice.kept]
    sizes = {group: len(rewards) for group, rewards in zip(order, members, strict=True) if group in stays}
    assert Counter(trajectory.group for trajectory in choice.kept) == sizes


def test_without_reward_variance_only_critic_estimators_learn() -> None:
    flat = rollout([[1.0, 1.0], [2.0, 2.0]])
    assert not select_batch(flat, AlgorithmConfig(estimator="grpo")).teaches
    assert select_batch(flat, AlgorithmConfig(estimator="gae")).teaches
    assert select_batch([*flat, played(30, 0, 0.0), played(30, 1, 1.0)], AlgorithmConfig(estimator="grpo")).teaches


def test_groups_are_not_compared_across_environments() -> None:
    large = [played(1, 0, 0.0, 0), played(1, 1, 10.0, 0), played(2, 0, 0.0, 0), played(2, 1, 9.0, 0)]
    small = [played(3, 0, 0.0, 1), played(3, 1, 0.2, 1), played(4, 0, 0.0, 1), played(4, 1, 0.1, 1)]
    choice = select_batch([*large, *small], AlgorithmConfig(group_filter="std", group_filter_keep=0.5))
    assert {t.group for t in choice.kept} == {1, 3}


def test_a_rollout_without_trajectories_is_an_error() -> None:
    with pytest.raises(ValueError, match="no groups"):
        select_batch([], AlgorithmConfig())
