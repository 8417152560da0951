"""Same prompt in other iterations, same group, and the diff of two trajectories."""

from __future__ import annotations

import html
import re

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from tests.webapp.conftest import People
from tests.webapp.explorer.scripted_run import write_story
from tests.webapp.fragments import compact, contains
from tests.webapp.page_requests import Visitors, who
from webapp.explorer.related import same_group, same_prompt
from webapp.runs.models import Run
from webapp.trajectories.models import Trajectory, Turn

__all__ = ["who"]


@pytest.fixture(scope="module")
def story(module_run: Run) -> None:
    write_story(module_run)


@pytest.fixture
def story_run(story: None, run: Run) -> Run:
    return run


def get(client: Client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 200
    return html.unescape(response.content.decode())


def one(run: Run, key: str) -> Trajectory:
    return Trajectory.objects.select_related("group", "run").get(run=run, key=key)


def test_a_diff_requires_access_to_both_trajectories(story_run: Run, who: Visitors, people: People) -> None:
    mine = one(story_run, "train-1-0-0")
    other_run = Run.objects.create(
        team=people.outsider.memberships.get().team, title="Theirs", config=story_run.config, environment="Sokoban"
    )
    theirs = one(write_story(other_run), "train-1-0-0")
    for address in (f"/t/{mine.slug}/diff/{theirs.slug}", f"/t/{theirs.slug}/diff/{mine.slug}"):
        assert who.owner.get(address).status_code == 404
        assert who.outsider.get(address).status_code == 404
    Run.objects.filter(pk=other_run.pk).update(visibility=Run.Visibility.LINK)
    assert "of Theirs" in get(who.owner, f"/t/{mine.slug}/diff/{theirs.slug}")


def test_a_fixed_prompt_is_followed_through_all_evaluations_of_its_suite(story_run: Run) -> None:
    found = one(story_run, "fixed-2-1-0")
    again = same_prompt(found)
    assert [each.iteration for each in again] == [0, 2, 4]
    assert [each.first.trajectory.key for each in again] == ["fixed-0-1-0", "fixed-2-1-0", "fixed-4-1-0"]
    assert [each.here for each in again] == [False, True, False]
    rewards = [each.first.trajectory.total_reward for each in again]
    assert [each.mean for each in again] == [*rewards[:2], None], "the last one was interrupted"


def test_means_that_are_written_alike_have_bars_of_one_height(story_run: Run) -> None:
    for key, reward in (("fixed-0-1-0", -1.04), ("fixed-2-1-0", -0.96), ("fixed-4-1-0", 10.2)):
        Trajectory.objects.filter(run=story_run, key=key).update(
            total_reward=reward, rewarded=True, status=Trajectory.Status.FAILED
        )
    low, still_low, high = same_prompt(one(story_run, "fixed-2-1-0"))
    assert low.height == still_low.height < high.height


def test_training_groups_with_the_same_seed_are_found_with_all_members(story_run: Run) -> None:
    again = same_prompt(one(story_run, "train-3-1-2"))
    assert [each.iteration for each in again] == [1, 2, 3, 4, 5, 6]
    assert all(len(each.members) == 4 for each in again)
    assert [each.iteration for each in same_prompt(one(story_run, "train-3-2-2"))] == [3]


def test_other_runs_and_replaced_trajectories_are_not_related(story_run: Run, people: People) -> None:
    twin = Run.objects.create(team=people.team, title="Twin", config=story_run.config, environment="Sokoban")
    write_story(twin)
    Trajectory.objects.filter(run=story_run, key="fixed-4-1-0").update(superseded=True)
    assert [each.iteration for each in same_prompt(one(story_run, "fixed-2-1-0"))] == [0, 2]


def test_the_first_diverging_turn_of_a_member_is_shown(story_run: Run) -> None:
    found = one(story_run, "train-1-0-3")
    own = list(found.turns.order_by("number"))
    for key, changed in (("train-1-0-0", 0), ("train-1-0-1", 1)):
        other = one(story_run, key)
        other.turns.all().delete()
        for turn in own:
            event = turn.event if turn.number != changed else turn.event | {"response": "something else"}
            Turn.objects.create(
                trajectory=other, number=turn.number, seq=turn.seq, reward=0, format_valid=True, event=event
            )
    shorter = one(story_run, "train-1-0-2")
    shorter.turns.all().delete()
    Turn.objects.create(trajectory=shorter, number=0, seq=1, reward=0, format_valid=True, event=own[0].event)
    differs = {member.played.trajectory.key: member.differs for member in same_group(found)}
    assert differs == {"train-1-0-0": 0, "train-1-0-1": 1, "train-1-0-2": 1, "train-1-0-3": None}


def test_the_prompt_page_lists_outcome_and_reward_of_every_member(story_run: Run, who: Visitors) -> None:
    found = one(story_run, "train-3-1-2")
    page = get(who.viewer, f"/t/{found.slug}/prompt")
    for other in Trajectory.objects.filter(group=found.group):
        assert f'href="/t/{other.slug}"' in page
    page = compact(page)
    hidden = 'compare thoughts<span class="visually-hidden">'
    assert len(re.findall(rf"{hidden}, of attempt \d+ and this one</span>", page)) == 3
    assert len(re.findall(rf"{hidden}, of iteration \d+</span>", page)) == 5
    assert "iteration 3, group 2 · dropped by the filter" in page


def test_a_prompt_seen_once_is_labelled(story_run: Run, who: Visitors) -> None:
    found = one(story_run, "train-3-2-2")
    assert "played at iteration 3 only" in get(who.viewer, f"/t/{found.slug}/prompt")
    assert "played at iteration 3 only" in get(who.viewer, f"/t/{found.slug}")


def test_the_trajectory_page_links_to_other_iterations(story_run: Run, who: Visitors) -> None:
    found, later = one(story_run, "fixed-2-1-0"), one(story_run, "fixed-4-1-0")
    page = get(who.viewer, f"/t/{found.slug}")
    assert re.search(rf'href="/t/{later.slug}"[^>]*aria-label="Iteration 4: ', page)
    assert f'href="/t/{found.slug}/prompt"' in page


def test_thoughts_are_diffed_by_word_and_escaped(story_run: Run, who: Visitors) -> None:
    left, right = one(story_run, "train-1-0-0"), one(story_run, "train-1-0-1")
    for found, word in ((left, "<b>up</b>"), (right, "down")):
        turn = found.turns.get(number=0)
        turn.event |= {"thought": f"I push the box {word} now."}
        turn.save()
    address = f"/t/{left.slug}/diff/{right.slug}"
    raw = who.viewer.get(address).content.decode()
    assert not contains(raw, "<b>up")
    page = html.unescape(" ".join(raw.split()))
    assert re.search(r"<del>.*\[first only: </span><b>up</b> <span", page)
    assert re.search(r"<ins>.*\[second only: </span>down <span", page)
    assert "First difference at" in page
    one_text = " ".join(get(who.viewer, address + "?view=inline").split())
    assert re.search(r"I push the box <del>.*</del><ins>.*</ins>now\.", one_text)


def test_a_trajectory_diffed_with_itself_is_identical(story_run: Run, who: Visitors) -> None:
    found = one(story_run, "train-1-0-0")
    assert "Thoughts and answers are identical" in get(who.viewer, f"/t/{found.slug}/diff/{found.slug}")


def test_the_pages_take_few_queries(
    story_run: Run, who: Visitors, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    found, other = one(story_run, "train-3-1-2"), one(story_run, "train-3-1-0")
    with django_assert_max_num_queries(11):
        get(who.viewer, f"/t/{found.slug}/prompt")
    with django_assert_max_num_queries(8):
        get(who.viewer, f"/t/{found.slug}/diff/{other.slug}")


def test_repetitive_thoughts_are_shown_beside_each_other(story_run: Run, who: Visitors) -> None:
    first, second = one(story_run, "train-1-0-0"), one(story_run, "train-1-0-1")
    for found, thought in ((first, "a b " * 749), (second, "b a a " * 499)):
        turn = Turn.objects.filter(trajectory=found).order_by("number")[0]
        turn.event["thought"] = thought.strip()
        turn.save()
    page = get(who.owner, f"/t/{first.slug}/diff/{second.slug}")
    assert "too different to mark words" in page
    assert ("a b " * 749).strip() in page
    assert ("b a a " * 499).strip() in page
