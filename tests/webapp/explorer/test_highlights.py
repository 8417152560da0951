"""Highlights of an iteration: which attempts are chosen, and why."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import DjangoAssertNumQueries

from tests.webapp import journal_builder
from trainer.journal import events as journal
from webapp.explorer import highlights
from webapp.explorer.highlights import MAX_HIGHLIGHTS, Attempt, choose
from webapp.ingest.tailer import JournalTailer
from webapp.runs.models import Run


def attempt(name: str, group: int = 0, *, split: str = "train", order: int = 0, **facts: object) -> Attempt:
    settings = {"success": False, "reward": 0.0, **facts}
    return Attempt(name, f"slug{name}", group, 0, 3, split, order, **settings)  # type: ignore[arg-type]


def kinds(*attempts: Attempt) -> list[tuple[str, str]]:
    return [(highlight.kind, highlight.attempt.id) for highlight in choose(attempts)]


def test_a_first_success_comes_first_and_names_the_failures_before_it() -> None:
    found = choose(
        [
            attempt("a", 0, success=True, reward=9.0, expected=1.0),
            attempt("b", 1, split="eval", success=True, tried_before=6),
            attempt("c", 2, split="eval", success=True, tried_before=6, solved_before=1),
        ]
    )
    assert [highlight.attempt.id for highlight in found] == ["b", "a"]
    assert found[0].caption == "First success on this puzzle, after 6 failed attempts"
    assert found[1].caption == "Largest surprise: reward +9.0, group mean +1.0"


def test_of_losses_on_solved_puzzles_the_latest_is_chosen_with_its_reason() -> None:
    early = attempt("a", 0, order=5, tried_before=3, solved_before=2)
    late = attempt("b", 1, order=9, tried_before=3, solved_before=1, lost_because="the box is in a corner")
    never_solved = attempt("c", 2, order=12, tried_before=3)
    found = choose([late, early, never_solved])
    assert [(highlight.kind, highlight.attempt.id) for highlight in found] == [("lost_again", "b")]
    assert found[0].caption == "Solved before, lost this time: the box is in a corner"


def test_the_only_success_of_a_group_is_one_only_among_several() -> None:
    assert kinds(attempt("a", success=True, attempts=8, successes=1)) == [("only_success", "a")]
    assert kinds(attempt("a", success=True, attempts=8, successes=2)) == []
    assert kinds(attempt("a", success=True, attempts=1, successes=1)) == []


def test_surprises_are_ranked_by_their_distance_from_the_mean() -> None:
    near, far, below = (
        attempt(name, group, reward=reward, expected=2.0)
        for name, group, reward in (("a", 0, 2.5), ("b", 1, 11.0), ("c", 2, -3.0))
    )
    assert kinds(near, far, below) == [("surprise", "b"), ("surprise", "c"), ("surprise", "a")]


def test_nothing_is_chosen_where_nothing_stands_out() -> None:
    assert choose([]) == []
    assert kinds(*(attempt(str(number), number, expected=0.0) for number in range(5))) == []


ATTEMPTS = st.lists(
    st.builds(
        attempt,
        st.text("abc", min_size=1, max_size=4),
        st.integers(0, 3),
        split=st.sampled_from(["train", "eval"]),
        order=st.integers(0, 50),
        success=st.booleans(),
        reward=st.floats(-10, 10),
        expected=st.none() | st.floats(-10, 10),
        attempts=st.integers(1, 8),
        successes=st.integers(0, 8),
        tried_before=st.integers(0, 5),
        solved_before=st.integers(0, 5),
    ),
    unique_by=lambda made: made.id,
    max_size=30,
)


@given(ATTEMPTS, st.randoms())
def test_each_attempt_is_chosen_at_most_once_whatever_the_order(attempts: list[Attempt], random: Random) -> None:
    found = choose(attempts)
    names = [highlight.attempt.id for highlight in found]
    assert len(names) == len(set(names)) <= MAX_HIGHLIGHTS
    shuffled = list(attempts)
    random.shuffle(shuffled)
    assert choose(shuffled) == found
    if any(one.surprise > 0 for one in attempts):
        assert found


@pytest.mark.django_db
def test_the_highlights_of_a_run_compare_with_its_earlier_iterations(
    run: Run, tmp_path: Path, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    def played(iteration: int, outcomes: list[bool]) -> list[journal.Event]:
        """An evaluation of two prompts, the same ones each time."""
        found: list[journal.Event] = []
        for number, success in enumerate(outcomes):
            name = f"e{iteration}-{number}"
            found += [
                journal_builder.group(iteration, number, [name], split="eval", seed=number),
                journal_builder.turn(name, 0),
                journal_builder.end(name, 1, success=success),
            ]
        return found

    journal_builder.write(
        tmp_path,
        journal_builder.started(),
        *played(0, [False, True]),
        *journal_builder.iteration(1),
        *played(1, [True, False]),
    )
    JournalTailer(run, tmp_path).drain()
    run.refresh_from_db()
    with django_assert_num_queries(4):
        found = highlights.of_iteration(run, 2)
    assert [(highlight.kind, highlight.attempt.id) for highlight in found] == [
        ("first_success", "e1-0"),
        ("lost_again", "e1-1"),
    ]
    data = found[0].as_data()
    assert (data["split"], data["iteration"], data["group"]) == ("eval", 1, 0)
    assert data["slug"] == run.trajectories.get(key="e1-0").slug
