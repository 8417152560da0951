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


SPREAD = [[0.0, 10.0], [0.0, 1.0], [3.0, 3.0], [0.0, 4.0]]


@pytest.mark.parametrize("scaling, factor", [("none", 1.0), ("linear", 0.5), ("sqrt", 0.5**0.5)])
def test_weights_are_scaled_by_the_kept_share(scaling: str, factor: float) -> None:
    algorithm = AlgorithmConfig.model_validate(
        {"group_filter": "std", "group_filter_keep": 0.5, "filter_loss_scaling": scaling}
    )
    choice = select_batch(rollout(SPREAD), algorithm)
    assert [score.kept for score in choice.scores] == [True, False, False, True]
    assert choice.weights == pytest.approx([factor] * 4)


def test_the_soft_filter_drops_nothing_and_is_not_scaled() -> None:
    algorithm = AlgorithmConfig(group_filter="soft", filter_loss_scaling="linear", drop_zero_std=False)
    choice = select_batch(rollout(SPREAD), algorithm)
    assert choice.weights == pytest.approx([1.0, 1.0, 0.1, 0.1, 0.0, 0.0, 0.4, 0.4])


def test_the_reason_of_a_skipped_update_is_what_is_missing() -> None:
    flat = rollout([[1.0, 1.0], [2.0, 2.0]])
    empty = select_batch(flat, AlgorithmConfig(estimator="gae", group_filter="top_p_linear", group_filter_keep=0.9))
    assert (empty.skipped, empty.kept, empty.weights, empty.teaches) == ("filter", [], [], False)
    assert [score.kept for score in empty.scores] == [False, False]
    assert select_batch(flat, AlgorithmConfig(estimator="grpo")).skipped == "no_signal"
    assert select_batch(flat, AlgorithmConfig(estimator="gae")).skipped is None


@given(rewards=ROLLOUT, method=st.sampled_from(["none", "std", "soft", "top_p_softmax"]), drop=st.booleans())
def test_with_dynamic_sampling_the_filter_sees_informative_groups_alone(
    rewards: list[list[float]], method: str, drop: bool
) -> None:
    settings = {"group_filter": method, "group_filter_keep": 0.5, "drop_zero_std": drop}
    choice = select_batch(rollout(rewards), AlgorithmConfig.model_validate(settings | {"dynamic_sampling_rounds": 3}))
    informative = [of_group for of_group in rewards if max(of_group) > min(of_group)]
    assert [score.group for score in choice.scores] == [10 * n for n in range(1, len(rewards) + 1)]
    if not informative:
        assert choice.skipped == "filter"
        return
    alone = select_batch(rollout(informative), AlgorithmConfig.model_validate(settings))
    kept = iter(score.kept for score in alone.scores)
    assert [score.kept for score in choice.scores] == [next(kept) if len(set(g)) > 1 else False for g in rewards]
    assert choice.weights == alone.weights
    assert choice.filtered.kept_share == alone.filtered.kept_share
