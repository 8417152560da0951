"""Dynamic sampling: groups without a signal are replaced, round by round, and interrupted rounds are repeated."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from envs.sandbox.client import EnvironmentFailure
from tests.trainer import tiny
from tests.trainer.loops.test_resume import StopCounter, history, play, same_files
from tests.trainer.loops.test_skipped_updates import events, rewards, varied
from trainer.config.run import RunConfig
from trainer.journal.events import (
    AttemptsUsed,
    GroupsReplaced,
    GroupsScored,
    GroupStarted,
    Metrics,
    Phase,
    RunStarted,
    TrajectoryFinished,
    UpdateSkipped,
)
from trainer.rollout.episode import Episode
from trainer.rollout.runner import EnvironmentsFailedError

__all__ = ["rewards"]


def informative_from(group: int) -> Callable[[str], float]:
    """Groups from this number on have different rewards."""
    return lambda name: varied(name) if group_of(name) >= group else 1.0


def group_of(name: str) -> int:
    return int(name.split("-")[1][1:])


def config_of(model: Path, rounds: int, **sections: Any) -> RunConfig:
    algorithm = {"estimator": "grpo", "dynamic_sampling_rounds": rounds} | sections.pop("algorithm", {})
    rollout = {"groups": 3} | sections.pop("rollout", {})
    defaults: dict[str, Any] = {"iterations": 1, "evaluation": {"prompts": 0}}
    return tiny.config(model, **(defaults | sections), algorithm=algorithm, rollout=rollout)


def test_uninformative_groups_are_replaced_until_none_is_missing(pocket_folder, tmp_path, rewards) -> None:
    rewards(lambda name: varied(name) if group_of(name) in (1, 4, 5) else 1.0)
    play(config_of(pocket_folder, 10), tmp_path)
    rounds = [(e.round_number, e.rounds, e.replaced, e.informative) for e in events(tmp_path, GroupsReplaced)]
    assert rounds == [(2, 10, [0, 2], 1), (3, 10, [3], 2)]
    started = events(tmp_path, GroupStarted)
    assert [event.group for event in started] == [0, 1, 2, 3, 4, 5]
    assert len({event.seed for event in started}) == 6
    (scored,) = events(tmp_path, GroupsScored)
    assert {score.group: score.kept for score in scored.groups} == {n: n in (1, 4, 5) for n in range(6)}
    (used,) = events(tmp_path, AttemptsUsed)
    unused = {reason: {group_of(name) for name in ids} for reason, ids in used.unused.items()}
    assert unused == {"resampled": {0, 2, 3}, "zero_advantage": {1, 4, 5}}, (
        "the middle one of three rewards is the mean"
    )
    assert used.trained == 6
    (metrics,) = events(tmp_path, Metrics)
    assert metrics.values["rollout/sampling_rounds"] == 3
    assert metrics.values["rollout/informative_groups"] == 3
    assert metrics.values["filter/kept_share"] == 1.0
    assert metrics.values["reward/zero_std_share"] == 0.5
    assert metrics.values["update/steps"] == 3, "three groups of three, three trajectories a step"


def test_the_journal_is_in_order_and_progress_is_reported(pocket_folder, tmp_path, rewards) -> None:
    rewards(informative_from(3))
    play(config_of(pocket_folder, 4), tmp_path)
    order = [e.type for e in events(tmp_path, GroupStarted, TrajectoryFinished, GroupsReplaced, GroupsScored, Metrics)]
    first = order.index("groups_replaced")
    assert order[:first].count("trajectory_finished") == 9
    assert order[first:].count("trajectory_finished") == 9
    assert order[-2:] == ["groups_scored", "metrics"]
    shown = [(e.done, e.total) for e in events(tmp_path, Phase) if e.phase == "rollout"]
    assert shown[0] == (0, 9)
    assert (9, 18) in shown
    assert shown[-1] == (18, 18)


def test_the_rounds_are_limited_and_missing_groups_stay_missing(pocket_folder, tmp_path, rewards) -> None:
    rewards(informative_from(5))
    play(config_of(pocket_folder, 2), tmp_path)
    (metrics,) = events(tmp_path, Metrics)
    assert metrics.values["rollout/sampling_rounds"] == 2
    assert metrics.values["rollout/informative_groups"] == 1
    assert metrics.values["update/steps"] == 1


@pytest.mark.parametrize("estimator", ["grpo", "gae"])
def test_without_any_informative_group_the_update_is_skipped(pocket_folder, tmp_path, rewards, estimator) -> None:
    rewards(lambda name: 1.0)
    play(config_of(pocket_folder, 3, algorithm={"estimator": estimator, "drop_zero_std": False}), tmp_path)
    assert [event.reason for event in events(tmp_path, UpdateSkipped)] == ["filter"]
    assert len(events(tmp_path, GroupStarted)) == 9


def test_one_round_is_the_run_without_dynamic_sampling(pocket_folder, tmp_path) -> None:
    play(config_of(pocket_folder, 1), tmp_path / "off")
    assert not events(tmp_path / "off", GroupsReplaced)
    (metrics,) = events(tmp_path / "off", Metrics)
    assert "rollout/sampling_rounds" not in metrics.values


def test_the_filter_chooses_among_informative_groups(pocket_folder, tmp_path, rewards) -> None:
    rewards(lambda name: varied(name) * group_of(name) if group_of(name) > 1 else 1.0)
    algorithm = {"group_filter": "std", "group_filter_keep": 0.34}
    play(config_of(pocket_folder, 5, algorithm=algorithm), tmp_path)
    (scored,) = events(tmp_path, GroupsScored)
    assert [score.group for score in scored.groups if score.kept] == [3, 4], "ceil(0.34 × 3) of 2, 3, 4"


def test_a_replaced_group_keeps_its_environment(pocket_folder, tmp_path, rewards) -> None:
    rewards(lambda name: varied(name) if group_of(name) not in (0, 2, 4) else 1.0)
    mix = {"name": "Sokoban", "mix": [{"name": "Bandit", "share": 0.5}]}
    play(config_of(pocket_folder, 5, environment=mix, rollout={"groups": 4}), tmp_path)
    started = {event.group: event.environment for event in events(tmp_path, GroupStarted)}
    replaced = [number for event in events(tmp_path, GroupsReplaced) for number in event.replaced]
    assert replaced == [0, 2, 4]
    assert [started[number] for number in (4, 5, 6)] == [started[number] for number in (0, 2, 4)]
    assert {started[0], started[2]} == {"Sokoban", "Bandit"}


def test_a_round_whose_environments_all_fail_ends_the_sampling(pocket_folder, tmp_path, rewards, monkeypatch) -> None:
    rewards(lambda name: varied(name) if group_of(name) == 1 else 1.0)
    start = Episode.__init__

    def broken(self: Episode, env: Any, config: Any, chat: Any, trajectory: Any, context: int) -> None:
        if trajectory.group >= 3:
            raise EnvironmentFailure("the emulator is gone")
        start(self, env, config, chat, trajectory, context)

    monkeypatch.setattr(Episode, "__init__", broken)
    play(config_of(pocket_folder, 5), tmp_path)
    (metrics,) = events(tmp_path, Metrics)
    assert metrics.values["rollout/failed_environments"] == 6
    assert metrics.values["rollout/sampling_rounds"] == 2
    monkeypatch.setattr(Episode, "__init__", lambda *args: (_ for _ in ()).throw(EnvironmentFailure("gone")))
    with pytest.raises(EnvironmentsFailedError):
        play(config_of(pocket_folder, 5), tmp_path / "none")


@pytest.mark.nightly
def test_a_run_stopped_inside_a_round_resumes_identically(pocket_folder, tmp_path, rewards) -> None:
    rewards(lambda name: varied(name) if (group_of(name) + int(name[:5])) % 3 == 0 else 1.0)
    config = config_of(
        pocket_folder,
        4,
        iterations=2,
        algorithm={"estimator": "gae", "filter_loss_scaling": "sqrt"},
        optimizer={"policy_lr": 1e-3},
        checkpoint={"every": 1},
    )
    counter, whole = StopCounter(), tmp_path / "whole"
    assert play(config, whole, counter).reason == "completed"
    assert len(events(whole, GroupsReplaced)) >= 4
    rounds = []
    for share in (0.2, 0.45, 0.7, 0.95):
        folder = tmp_path / str(share)
        assert play(config, folder, StopCounter(share * counter.count)).reason == "interrupted"
        rounds.append(len(events(folder, GroupsReplaced)))
        assert play(config, folder).reason == "completed"
        assert len(events(folder, RunStarted)) == 2
        assert history(folder) == history(whole)
        same_files(folder, whole)
    assert any(0 < count < len(events(whole, GroupsReplaced)) for count in rounds), "some stops lie inside the rounds"
