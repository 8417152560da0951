"""Training use of attempts: every attempt has one, and it is what the update did."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from hypothesis import given
from hypothesis import strategies as st

from envs.sandbox.client import EnvironmentFailure
from tests.trainer.learner.test_batch_selection import ROLLOUT, rollout
from trainer.config.run import AlgorithmConfig
from trainer.learner.attempts_used import attempts_used, use_metrics
from trainer.learner.batch_selection import BatchSelection, select_batch
from trainer.learner.learnt_tokens import LearntBatch, LearntTokens
from trainer.metrics.training_use import OWN_USES
from trainer.rollout.trajectory import Trajectory, collate


def with_tokens(trajectories: Sequence[Trajectory]) -> list[Trajectory]:
    for trajectory in trajectories:
        trajectory.append_prompt([1, 2])
        trajectory.append_response([3, 4], [-1.0, -1.0], [0.5, 0.5], 0)
    return list(trajectories)


def learnt_rows(
    selection: BatchSelection, *, zero: Sequence[str] = (), clipped: Sequence[str] = (), trains_policy: bool = True
) -> LearntBatch:
    batch = collate(selection.kept, 0)
    ids = [selection.kept[number].id for number in batch.trajectory.tolist()]
    valued = torch.tensor([name not in zero for name in ids])
    taught = valued & torch.tensor([name not in clipped for name in ids])
    nothing = torch.zeros(batch.mask.shape)
    tokens = LearntTokens(
        advantages=batch.mask * valued[:, None].float(),
        logprobs=nothing,
        ratios=nothing,
        clipped=batch.mask & (valued & ~taught)[:, None],
        taught=batch.mask & taught[:, None],
        trains_policy=trains_policy,
    )
    return LearntBatch(batch, tokens)


@given(rewards=ROLLOUT, drop=st.booleans(), failed=st.booleans())
def test_each_attempt_has_one_use_and_they_add_up(rewards: list[list[float]], drop: bool, failed: bool) -> None:
    played = with_tokens(rollout(rewards))
    complete = played[1:] if failed and len(played) > 1 else played
    if complete is not played:
        played[0].fail(EnvironmentFailure("it exited"))
    algorithm = AlgorithmConfig(group_filter="std", group_filter_keep=0.5, drop_zero_std=drop)
    selection = select_batch(complete, algorithm)
    learnt = learnt_rows(selection) if selection.teaches else None
    used = attempts_used(1, played, selection, learnt)
    listed = [name for ids in used.unused.values() for name in ids]
    assert len(set(listed)) == len(listed)
    assert used.trained == (len(selection.kept) if learnt else 0)
    assert used.trained + len(listed) == len(played) == sum(use_metrics(used).values())
    assert set(use_metrics(used)) == {f"attempts/{use}" for use in OWN_USES}
    spread = {10 * g for g, group in enumerate(rewards, start=1) if len(set(group)) > 1}
    assert {int(name.split("-")[0]) for name in used.unused.get("filtered", [])} <= spread


def test_the_earliest_reason_counts() -> None:
    played = with_tokens(rollout([[0.0, 10.0], [0.0, 4.0], [3.0, 3.0], [0.0, 9.0], [1.0, 1.0]]))
    played[2].fail(EnvironmentFailure("no answer within 10 s", timed_out=True))
    played[4].fail(ValueError("no number"))
    complete = [trajectory for trajectory in played if not trajectory.failed]
    algorithm = AlgorithmConfig(group_filter="std", group_filter_keep=0.3, drop_zero_std=True)
    selection = select_batch(complete, algorithm)
    assert {trajectory.group for trajectory in selection.kept} == {10, 40}
    used = attempts_used(7, played, selection, learnt_rows(selection, zero=["10-0"], clipped=["40-1"]), replaced={50})
    assert used.iteration == 7
    assert used.unused == {
        "zero_advantage": ["10-0"],
        "timeout": ["20-0"],
        "equal_rewards": ["20-1", "30-1"],
        "environment_error": ["30-0"],
        "clipped": ["40-1"],
        "resampled": ["50-0", "50-1"],
    }
    assert used.trained == 2
    assert used.counts["trained"] == 2


def test_without_a_filter_equal_rewards_are_the_reason_of_a_zero_advantage() -> None:
    selection = select_batch(with_tokens(rollout([[2.0, 2.0], [0.0, 1.0]])), AlgorithmConfig(drop_zero_std=False))
    learnt = learnt_rows(selection, zero=["10-0", "10-1"])
    assert attempts_used(1, selection.kept, selection, learnt).unused == {"equal_rewards": ["10-0", "10-1"]}


def test_only_the_critic_learns_in_its_warm_up() -> None:
    selection = select_batch(with_tokens(rollout([[0.0, 1.0]])), AlgorithmConfig())
    used = attempts_used(1, selection.kept, selection, learnt_rows(selection, trains_policy=False))
    assert used.unused == {"critic_warmup": ["10-0", "10-1"]}


def test_a_skipped_update_teaches_nothing() -> None:
    selection = select_batch(with_tokens(rollout([[1.0, 1.0]])), AlgorithmConfig(estimator="grpo", drop_zero_std=False))
    assert not selection.teaches
    assert attempts_used(1, selection.kept, selection, None).unused == {"equal_rewards": ["10-0", "10-1"]}
