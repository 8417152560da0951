"""Rollouts that are played during updates: bounded staleness, corrected updates, a complete journal."""

import os
import signal

import pytest

from tests.trainer import tiny
from tests.trainer.cluster.processes import pids
from tests.trainer.cluster.selection import on_request
from tests.trainer.loops.test_train import count_turns, events, run
from trainer.journal.events import GroupStarted, Metrics, Notice, RunStarted, TrajectoryFinished, Turn

pytestmark = pytest.mark.usefixtures("cluster")


def ahead(folder, staleness=1, **sections):
    parts = {
        "rollout": {"groups": 3, "groups_per_session": 1, "max_staleness": staleness},
        "algorithm": {"estimator": "reinforce_plus_plus", "drop_zero_std": False, "gamma": 0.9, "tis_cap": 2},
        "evaluation": {"prompts": 3, "every": 2},
        "cluster": {"rollout_actors": 2, "learners": 1},
        "iterations": 4,
    }
    return tiny.config(folder, **(parts | sections))


def check_trajectories(folder):
    """Each trajectory of the last attempt is started once, played turn by turn and finished once."""
    turns, ended = {}, set()
    for event in events(folder):
        match event:
            case RunStarted():
                turns, ended = {}, set()
            case GroupStarted():
                assert not turns.keys() & set(event.members)
                turns |= dict.fromkeys(event.members, 0)
            case Turn():
                assert event.turn == turns[event.trajectory]
                turns[event.trajectory] += 1
            case TrajectoryFinished():
                assert event.turns == turns[event.trajectory]
                assert event.trajectory not in ended
                ended.add(event.trajectory)
    assert ended == turns.keys()
    return turns


@on_request
@pytest.mark.parametrize("bound", [1, 2])
def test_staleness_is_bounded_and_reported(llama_folder, tmp_path, bound):
    assert run(ahead(llama_folder, bound), tmp_path).reason == "completed"
    played = check_trajectories(tmp_path)
    assert sum(name.startswith("0000") for name in played) == 4 * 9
    metrics = [event.values for event in events(tmp_path, Metrics) if "rollout/staleness" in event.values]
    assert len(metrics) == 4
    assert metrics[0]["rollout/staleness_max"] == 0, "nothing was updated before"
    for values in metrics:
        assert 0 <= values["rollout/staleness"] <= values["rollout/staleness_max"] <= bound
        assert values["mismatch/clipped_fraction"] >= 0
    assert metrics[1]["rollout/staleness_max"] == 1, (
        "played with the first weights, learned from after the first update"
    )


@on_request
def test_a_stop_closes_what_was_played_ahead_and_the_run_resumes(llama_folder, tmp_path):
    config = ahead(llama_folder)
    end = run(config, tmp_path, stop=lambda: count_turns(tmp_path, 3) > 0)
    assert end.reason == "interrupted"
    assert 1 <= end.iteration < 4
    check_trajectories(tmp_path)
    assert run(config, tmp_path).reason == "completed"
    check_trajectories(tmp_path)


@pytest.mark.nightly
def test_no_rollout_beyond_the_last_iteration_is_played(llama_folder, tmp_path):
    assert run(ahead(llama_folder, 3, iterations=2), tmp_path).reason == "completed"
    check_trajectories(tmp_path)
    assert {event.iteration for event in events(tmp_path, GroupStarted) if event.split == "train"} == {1, 2}


@on_request
def test_groups_of_a_lost_actor_are_closed_and_played_again_under_new_numbers(llama_folder, tmp_path):
    killed = []

    def kill_once():
        if not killed and count_turns(tmp_path, 2):
            killed.append(pids("RolloutActor")[0])
            os.kill(killed[0], signal.SIGKILL)
        return False

    assert run(ahead(llama_folder), tmp_path, stop=kill_once).reason == "completed"
    check_trajectories(tmp_path)
    assert "was lost and is replaced" in "".join(event.message for event in events(tmp_path, Notice))
    for iteration in range(1, 5):
        ends = [
            event.end
            for event in events(tmp_path, TrajectoryFinished)
            if event.trajectory.startswith(f"{iteration:05d}-")
        ]
        assert len(ends) - ends.count("interrupted") >= 9, "every group is played to its end"
