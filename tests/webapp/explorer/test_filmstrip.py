"""Which iterations stand for the training of one initial state, and what their frames contain."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import DjangoAssertNumQueries

from tests.webapp.explorer.scripted_run import write_story
from webapp.explorer.filmstrip import MAX_ANSWER, MAX_FRAMES, choose, choose_frames, film_data, make_film
from webapp.explorer.related import same_prompt
from webapp.runs.models import Run
from webapp.trajectories.models import Trajectory


@pytest.fixture(scope="module")
def story(module_run: Run) -> None:
    write_story(module_run)


@pytest.fixture
def story_run(story: None, run: Run) -> Run:
    return run


def one(run: Run, key: str) -> Trajectory:
    return Trajectory.objects.select_related("group", "run").get(run=run, key=key)


@given(solved=st.lists(st.booleans(), max_size=150), limit=st.integers(3, 40))
def test_frames_are_spread_evenly_with_first_last_and_first_success(solved: list[bool], limit: int) -> None:
    chosen = choose_frames(solved, limit)
    assert chosen == sorted(set(chosen))
    assert len(chosen) == min(limit, len(solved))
    if solved:
        assert {0, len(solved) - 1} <= set(chosen)
    if True in solved:
        assert solved.index(True) in chosen
    if len(solved) > limit:
        step = (len(solved) - 1) / (limit - 1)
        assert max(right - left for left, right in pairwise(chosen)) <= 2 * step + 1


def test_each_iteration_is_represented_by_the_same_member_where_it_has_ended(story_run: Run) -> None:
    current = one(story_run, "train-3-1-2")
    again = same_prompt(current)
    Trajectory.objects.filter(key="train-4-1-2").update(status=Trajectory.Status.PLAYING)
    Trajectory.objects.filter(key__startswith="train-5-1-").update(status=Trajectory.Status.PLAYING)
    chosen = choose(same_prompt(current), current)
    keys = [frame.played.trajectory.slug for frame in chosen.frames]
    members = dict(Trajectory.objects.filter(slug__in=keys).values_list("iteration", "member"))
    assert members == {1: 2, 2: 2, 3: 2, 4: 0, 6: 0} | {6: members.get(6, 0)}
    assert chosen.total == len(again) - 1


def test_only_the_first_success_is_marked(story_run: Run) -> None:
    keys = ["fixed-0-1-0", "fixed-2-1-0", "fixed-4-1-0"]
    for key, status in zip(keys, ("failed", "success", "success"), strict=True):
        Trajectory.objects.filter(key=key).update(status=status)
    current = one(story_run, keys[2])
    chosen = choose(same_prompt(current), current)
    assert [frame.first_success for frame in chosen.frames] == [False, True, False]
    assert chosen.facts == "Same puzzle at 3 iterations · first solved at iteration 2"
    Trajectory.objects.filter(key__in=keys).update(status="failed")
    assert choose(same_prompt(current), current).facts.endswith("not solved yet")


def test_frames_have_steps_and_the_last_answer_in_two_queries(
    story_run: Run, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    current = one(story_run, "train-3-1-2")
    last = current.turns.order_by("-number")[0]
    last.event |= {"answer": "Left   || " + "Right " * 100}
    last.save()
    again = same_prompt(current)
    for limit in (3, MAX_FRAMES):
        chosen = choose(again, current, limit)
        with django_assert_num_queries(2):
            film = make_film(chosen, "Bandit")
    assert film.title == "How it learned: Bandit"
    frame = next(frame for frame in film.frames if frame.iteration == 3)
    assert frame.answer.startswith("Left || Right")
    assert len(frame.answer) <= MAX_ANSWER + 2
    assert len(frame.steps) == current.action_count + 1
    data = film_data(film)
    assert len(data) == len(film.frames)
    assert data[0][0]["player"] == (1, 1)
