"""A suite through training: frames of the wall, references, and the gain between the ends."""

from __future__ import annotations

from django.utils import timezone

from tests.webapp.conftest import run
from tests.webapp.explorer.scripted_run import story, write_story
from webapp.explorer.evaluation_history import (
    EvaluationFrame,
    ReferenceLevel,
    load_history,
    make_frames,
)
from webapp.explorer.run_result import PuzzlePlay
from webapp.runs.models import Evaluation, MetricPoint, Run
from webapp.trajectories.models import Trajectory

__all__ = ["run"]


def test_a_frame_has_a_sign_for_each_puzzle_and_a_gap_where_it_was_not_played() -> None:
    first, second = (0, "Sokoban", 1), (1, "Sokoban", 2)
    plays = {
        8: {first: PuzzlePlay(1.0, "b"), second: PuzzlePlay(0.25, "c")},
        0: {first: PuzzlePlay(0.5, "a")},
    }
    assert make_frames(plays, [first, second]) == [EvaluationFrame(0, "1–"), EvaluationFrame(8, "10")]


def test_the_history_of_a_suite_is_read_from_its_evaluations_and_attempts(run: Run) -> None:
    write_story(run, story())
    for iteration, success in ((0, 0.25), (2, 0.5), (4, 0.75)):
        Evaluation.objects.create(
            run=run,
            suite="fixed",
            iteration=iteration,
            prompts=3,
            success=success,
            success_low=success - 0.2,
            success_high=success + 0.2,
            time=timezone.now(),
        )
    name = "eval/fixed/success_random_play"
    MetricPoint.objects.create(run=run, name=name, iteration=0, value=0.125, tokens=0, seconds=0)
    history = load_history(run, list(Evaluation.objects.filter(run=run, suite="fixed").order_by("iteration")))
    assert [frame.iteration for frame in history.frames] == [0, 2, 4]
    assert {len(frame.solved) for frame in history.frames} == {len(history.puzzles)}
    assert history.gain is not None
    assert (history.gain.first.iteration, history.gain.last.iteration) == (0, 4)
    assert history.last_change.startswith("After iteration 4: ")
    assert history.last_change.endswith("newly lost")
    assert history.references == [ReferenceLevel("random moves", 0.125)]
    assert history.references[0].top == 87.5
    newest = Trajectory.objects.get(slug=history.slugs[0])
    assert (newest.iteration, newest.group.number) == (4, history.numbers[0])
