"""Rollout pool of one process: sessions of several groups, progress, failing environments."""

import pytest

from envs.sokoban.sokoban_env import Sokoban
from tests.trainer import tiny
from trainer.config.run import PolicyConfig
from trainer.engines.transformers.transformers_sampler import TransformersSampler
from trainer.journal.events import GroupStarted, Turn
from trainer.learner.learner import Learner
from trainer.policy.load import load
from trainer.rollout.environment_mix import get_shares, train_plans
from trainer.rollout.rollout_pool import LocalRolloutPool
from trainer.rollout.runner import EnvironmentsFailedError, RolloutRequest, RolloutRunner
from trainer.rollout.sessions import join, split_evenly, split_sessions

GROUPS = 5


def settings(folder, **sections):
    return tiny.config(folder, rollout={"groups": GROUPS}, **sections)


def request_of(config):
    return RolloutRequest(train_plans(config, get_shares(config), iteration=1), 1, split="train", temperature=1.0)


def play(config, policy, chat, groups_per_session):
    """Trajectories, events and reported progress of one request."""
    events, progress = [], []
    sampler = TransformersSampler(policy.model, chat.eos_id, policy.pad_id, threads=0)
    runner = RolloutRunner(config, chat, sampler, policy.context, lambda *new: events.extend(new))
    pool = LocalRolloutPool(runner, None, groups_per_session=groups_per_session, device="CPU")
    trajectories = pool.play(request_of(config), lambda done, tokens: progress.append((done, tokens)))
    pool.close()
    return trajectories, events, progress


@pytest.mark.parametrize("groups", [1, 2, 5])
def test_trajectories_do_not_depend_on_the_groups_of_a_session(pocket_folder, policy, chat, groups):
    config = settings(pocket_folder)
    together, _, _ = play(config, policy, chat, 0)
    apart, events, _ = play(config, policy, chat, groups)
    assert [trajectory.id for trajectory in apart] == [trajectory.id for trajectory in together]
    assert [trajectory.ids for trajectory in apart] == [trajectory.ids for trajectory in together]
    started = [event.group for event in events if isinstance(event, GroupStarted)]
    assert started == list(range(GROUPS))


def test_a_session_ends_before_the_next_one_begins(pocket_folder, policy, chat):
    _, events, _ = play(settings(pocket_folder), policy, chat, 2)
    groups = [
        event.group if isinstance(event, GroupStarted) else int(event.trajectory.split("-g")[1][:2])
        for event in events
        if isinstance(event, GroupStarted | Turn)
    ]
    assert [max(groups[: position + 1]) // 2 for position in range(len(groups))] == [group // 2 for group in groups]


def test_progress_counts_all_sessions(pocket_folder, policy, chat):
    trajectories, _, progress = play(settings(pocket_folder), policy, chat, 2)
    assert progress[-1] == (len(trajectories), sum(trajectory.tokens for trajectory in trajectories))
    assert progress == sorted(progress)


def test_sessions_fail_only_if_the_environment_failed_in_all_of_them(pocket_folder, policy, chat):
    config = settings(pocket_folder)
    with pytest.raises(EnvironmentsFailedError, match="15 of 15") as failure:
        play_with_failing(config, policy, chat, failing=range(GROUPS))
    assert len(failure.value.trajectories) == 3 * GROUPS
    trajectories = play_with_failing(config, policy, chat, failing=range(2))
    assert sum(trajectory.failed for trajectory in trajectories) == 6


def play_with_failing(config, policy, chat, failing):
    """As `play` with sessions of one group; environments of some groups do not start."""
    plans = train_plans(config, get_shares(config), iteration=1)
    seeds = {plans[group].seed for group in failing}
    reset = Sokoban.reset

    def failing_reset(env, *, seed=None, options=None):
        if seed in seeds:
            raise RuntimeError("no room")
        return reset(env, seed=seed, options=options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Sokoban, "reset", failing_reset)
        return play(config, policy, chat, 1)[0]


def test_requests_are_split_and_joined_without_loss(pocket_folder):
    request = request_of(settings(pocket_folder))
    for parts in (split_sessions(request, 2), split_sessions(request, 0), split_evenly(request, 3)):
        groups = [plan.group for part in parts for plan in part.plans]
        assert sorted(groups) == list(range(GROUPS))
        assert all(part.plans for part in parts)
    assert [len(part.plans) for part in split_sessions(request, 2)] == [2, 2, 1]
    assert [len(part.plans) for part in split_evenly(request, 3)] == [2, 2, 1]
    assert len(split_evenly(request, 9)) == GROUPS


def test_joined_trajectories_are_in_the_order_of_the_plans(pocket_folder, policy, chat):
    config = settings(pocket_folder)
    trajectories, _, _ = play(config, policy, chat, 0)
    mixed = [trajectories[6:], trajectories[:6]]
    assert join(request_of(config).plans, mixed) == trajectories


def test_a_copy_of_the_policy_gets_the_learners_weights(pocket_folder, policy, chat):
    config, other = settings(pocket_folder), load(pocket_folder, PolicyConfig())
    learner = Learner(config, policy)
    sampler = TransformersSampler(other.model, chat.eos_id, other.pad_id, threads=0)
    runner = RolloutRunner(config, chat, sampler, other.context, lambda *events: None)
    pool = LocalRolloutPool(runner, None, groups_per_session=0, device="CPU")
    name, weight = next(iter(policy.model.named_parameters()))
    weight.data += 1.0
    pool.update_weights(learner)  # they share no model, but nothing was declared a copy
    assert not (other.model.state_dict()[name] == weight).all()
    pool.copy = other.model
    pool.update_weights(learner)
    assert (other.model.state_dict()[name] == weight).all()
