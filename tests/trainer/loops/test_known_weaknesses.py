"""Weaknesses of published code of this kind, one test each, that must not occur here.

Only those that a whole rollout or run shows; tests of the parts cover masks, estimators, filters and templates.
"""

from __future__ import annotations

import pytest
import torch

from tests.trainer import tiny
from tests.trainer.loops.test_train import events, run
from tests.trainer.rollout.test_runner import player, train_request
from trainer.algorithms.group_filter import keep_groups
from trainer.engines.transformers.transformers_sampler import TransformersSampler
from trainer.journal.events import GroupStarted, TrajectoryFinished, Turn


def test_a_run_filters_by_raw_rewards_whatever_normalisation_it_uses(pocket_folder, tmp_path) -> None:
    normalised = {
        "reward_normalization": "mean_std",
        "group_filter": "std",
        "group_filter_keep": 0.5,
        "drop_zero_std": False,
    }
    config = tiny.config(
        pocket_folder, iterations=1, algorithm=normalised | {"estimator": "gae"}, evaluation={"prompts": 0}
    )
    run(config, tmp_path)
    rewards: dict[int, list[float]] = {}
    group = {member: e.group for e in events(tmp_path, GroupStarted) for member in e.members}
    for event in events(tmp_path, TrajectoryFinished):
        rewards.setdefault(group[event.trajectory], []).append(event.total_reward)
    scored = next(event for event in events(tmp_path) if event.type == "groups_scored")
    wanted = keep_groups([rewards[score.group] for score in scored.groups], "std", 0.5, False)
    assert [score.kept for score in scored.groups] == wanted.kept
    assert [score.std for score in scored.groups] == pytest.approx([stats.std for stats in wanted.groups])


def test_an_update_contains_every_trajectory_once(pocket_folder, tmp_path, monkeypatch) -> None:
    from trainer.learner.learner import Learner

    seen = []
    update = Learner.update
    monkeypatch.setattr(Learner, "update", lambda self, batch, n: seen.append(batch) or update(self, batch, n))
    config = tiny.config(
        pocket_folder,
        iterations=1,
        rollout={"groups": 3, "group_size": 5},
        algorithm={"estimator": "gae", "drop_zero_std": False},
        evaluation={"prompts": 0},
    )
    run(config, tmp_path)
    assert len(seen[0]) == 15, "no row is added to fill up a batch"
    assert seen[0].group.tolist() == [0] * 5 + [1] * 5 + [2] * 5
    assert seen[0].trajectory.tolist() == list(range(15))


def test_sampling_does_not_depend_on_global_generators(policy, chat) -> None:
    config = tiny.config("pocket")

    def responses():
        sampler = TransformersSampler(policy.model, chat.eos_id, policy.pad_id)
        played = player(config, chat, sampler, []).play(train_request(config, [2]))
        return [trajectory.ids for trajectory in played]

    torch.manual_seed(1)
    first, state = responses(), torch.random.get_rng_state()
    torch.manual_seed(1)
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.manual_seed(2)
    assert responses() == first


def test_a_turn_can_be_read_as_soon_as_it_is_played(policy, chat) -> None:
    config = tiny.config("pocket")
    recorded, played_so_far = [], []
    sampler = TransformersSampler(policy.model, chat.eos_id, policy.pad_id)
    playing = player(config, chat, sampler, recorded, progress=lambda *_: played_so_far.append(len(turns(recorded))))
    playing.play(train_request(config, [3]))
    assert played_so_far == list(range(1, len(turns(recorded)) + 1)), "emitted one by one, before the step ends"
    assert all(turn.response and turn.board for turn in turns(recorded))


def turns(recorded) -> list[Turn]:
    return [event for event in recorded if isinstance(event, Turn)]
