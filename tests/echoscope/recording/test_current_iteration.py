"""Iterations of attempts that are recorded without one, and turns without an image."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import pytest

import echoscope
from trainer.journal.reader import read


def recorded(folder: Path, kind: str) -> list[Any]:
    return [event for event in read(folder / "journal.jsonl") if event.type == kind]


def play(run: echoscope.Recorder, **group: Any) -> None:
    with run.trajectory(environment="Wordle", prompt="Guess.", **group) as trajectory:
        trajectory.turn(state="_____", response="CRANE", reward=1.0)
        trajectory.finish(success=True)


def test_a_loop_without_groups_and_numbers_has_an_iteration_for_each_log(tmp_path: Path) -> None:
    run = echoscope.init("Loop", folder=tmp_path)
    for loss in (3.0, 2.0):
        play(run)
        play(run)
        run.log({"loss": loss})
        run.log({"lr": 0.1})
    play(run)
    run.finish()
    assert [group.iteration for group in recorded(tmp_path, "group_started")] == [1, 1, 2, 2, 3]
    assert [group.group for group in recorded(tmp_path, "group_started")] == [0, 1, 0, 1, 0]
    values = [(event.iteration, sorted(event.values)) for event in recorded(tmp_path, "metrics")]
    assert values == [
        (1, ["loss", "reward/mean", "success/rate"]),
        (1, ["lr"]),
        (2, ["loss", "reward/mean", "success/rate"]),
        (2, ["lr"]),
        (3, ["reward/mean", "success/rate"]),
    ]


def test_a_trajectory_belongs_to_the_iteration_of_the_newest_training_group(tmp_path: Path) -> None:
    run = echoscope.init("Groups", folder=tmp_path)
    run.group(2, prompt="Guess.", iteration=7)
    play(run)
    run.group(1, prompt="Guess.")
    play(echoscope.attach(tmp_path))
    run.log({"loss": 1.0}, iteration=7)
    play(run)
    play(run, iteration=3)
    assert [group.iteration for group in recorded(tmp_path, "group_started")] == [7, 7, 7, 7, 8, 3]


@pytest.mark.parametrize(("start", "train", "evaluation"), [(0, 1, 0), (14, 15, 14)])
def test_without_a_group_it_is_the_next_iteration_and_of_an_evaluation_the_finished_ones(
    start: int, train: int, evaluation: int, tmp_path: Path
) -> None:
    run = echoscope.init("Evaluated", folder=tmp_path, from_iteration=start)
    play(run, split="eval", suite="Wordle")
    play(run)
    play(run, split="eval", suite="Wordle")
    iterations = [group.iteration for group in recorded(tmp_path, "group_started")]
    assert iterations == [evaluation, train, train]


def test_attempts_of_an_evaluation_without_training_belong_to_its_result(tmp_path: Path) -> None:
    run = echoscope.init("Evaluation", folder=tmp_path)
    play(run, split="eval", suite="Wordle")
    run.evaluation("Wordle", iteration=0, prompts=1, trajectories=1, successes=1)
    run.finish()
    (evaluation,) = recorded(tmp_path, "evaluation")
    assert (evaluation.mean_reward, evaluation.mean_turns) == (1.0, 1)


def test_a_turn_without_a_frame_has_no_image(tmp_path: Path) -> None:
    run = echoscope.init("CartPole", folder=tmp_path)
    frame: Any = gymnasium.make("CartPole-v1").unwrapped.render()  # without a render_mode
    with run.trajectory(prompt="Balance.") as trajectory:
        trajectory.turn(state="upright", response="left", images=frame)
        trajectory.turn(state="upright", response="left", images=[frame])
    assert frame is None
    assert [turn.images for turn in recorded(tmp_path, "turn")] == [None, None]
    assert not (tmp_path / "images").exists()
