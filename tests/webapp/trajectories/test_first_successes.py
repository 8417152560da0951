"""Puzzles that an evaluation solved for the first time."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_django import DjangoAssertNumQueries, Settings

from tests.webapp.evaluation_journal import evaluations
from tests.webapp.explorer.scripted_run import write_story
from tests.webapp.journal_builder import started
from webapp.runs.models import Run
from webapp.trajectories.first_successes import first_successes


@pytest.fixture
def learner(run: Run, tmp_path: Path, settings: Settings) -> Run:
    settings.ECHOSCOPE_DATA_DIR = tmp_path
    signs = {0: "---+-", 10: "-+--+", 20: "++++-"}
    return write_story(run, [started(), *evaluations(signs, [4, 2, 9, 7, None])])


def test_puzzles_solved_for_the_first_time_are_found_hardest_first(
    learner: Run, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    """At iteration 20 the second and the fourth are solved again, and the fifth is lost."""
    with django_assert_num_queries(2):
        found = first_successes(learner, "Sokoban", 20)
    assert found is not None
    assert [(puzzle.number, puzzle.distance, puzzle.failures) for puzzle in found.puzzles] == [(2, 9, 2), (0, 4, 2)]
    assert learner.trajectories.get(slug=found.hardest.slug).key == "e20-2"
    said, _, hardest = found.sentence.partition(". ")
    assert said == "First success on 2 puzzles, after iteration 20"
    assert hardest == "The hardest is puzzle 3 (9 moves, 2 failed attempts before)."


def test_an_unknown_distance_is_left_out_of_the_sentence(learner: Run) -> None:
    found = first_successes(learner, "Sokoban", 10, harder_than=-1)
    assert found is not None
    assert [puzzle.facts for puzzle in found.puzzles] == [
        "2 moves, 1 failed attempt before",
        "1 failed attempt before",
    ]


def test_easier_puzzles_and_evaluations_without_failures_before_have_none(learner: Run) -> None:
    assert first_successes(learner, "Sokoban", 0) is None
    assert first_successes(learner, "Sokoban", 20, harder_than=9) is None
