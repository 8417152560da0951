"""Puzzles that a run has learned lately."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_django import Settings

from tests.webapp.explorer.scripted_run import write_story
from tests.webapp.explorer.test_run_result import evaluated
from tests.webapp.journal_builder import started
from tests.webapp.page_requests import Visitors, who
from webapp.explorer.learned_puzzles import learned_lately
from webapp.runs.models import Run

__all__ = ["who"]
EVALUATIONS = {0: "-++--", 10: "--+++", 20: "+++-+"}


@pytest.fixture
def learner(run: Run, tmp_path: Path, settings: Settings) -> Run:
    settings.ECHOSCOPE_DATA_DIR = tmp_path
    write_story(run, [started(), *(event for at, solved in EVALUATIONS.items() for event in evaluated(at, solved))])
    return run


def test_a_puzzle_is_learned_once_it_is_solved_in_every_later_evaluation(learner: Run) -> None:
    """The third was always solved, and the fourth was lost again."""
    found = learned_lately(learner, "Sokoban", list(EVALUATIONS))
    assert [(puzzle.number, puzzle.iteration, puzzle.failures) for puzzle in found] == [
        (0, 20, 2),
        (1, 20, 1),
        (4, 10, 1),
    ]
    keys = [learner.trajectories.get(slug=puzzle.slug).key for puzzle in found]
    assert keys == ["e20-0", "e20-1", "e10-4"]


def test_the_result_names_them_with_their_films(learner: Run, who: Visitors) -> None:
    Run.objects.filter(pk=learner.pk).update(state=Run.State.FINISHED)
    page = " ".join(who.viewer.get(f"/runs/{learner.slug}/").content.decode().split())
    slug = learner.trajectories.get(key="e20-0").slug
    link = f'<a href="/t/{slug}/prompt">Puzzle 1</a>'
    assert f"{link}: solved since iteration 20, after 2 failed attempts" in page
