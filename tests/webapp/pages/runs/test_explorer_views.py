"""Explorer page: permissions, listing, sorting, htmx partials, invalid queries."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries, Settings

from tests.webapp.conftest import People
from tests.webapp.explorer.scripted_run import write_story
from tests.webapp.fragments import contains
from tests.webapp.page_requests import Visitors, assert_private, who
from webapp.annotations.models import Star, Tag, Tagging
from webapp.core import formatting
from webapp.runs.models import Run
from webapp.trajectories.models import Trajectory, Turn

__all__ = ["who"]


@pytest.fixture
def played(run: Run, tmp_path: Path, settings: Settings) -> Run:
    settings.ECHOSCOPE_DATA_DIR = tmp_path
    return write_story(run)


def get(client: Client, run: Run, query: str = "", **headers: str) -> str:
    response = client.get(f"/runs/{run.slug}/trajectories{'?' if query else ''}{query}", headers=headers)
    assert response.status_code == 200
    return html.unescape(response.content.decode())


def listed(page: str) -> list[str]:
    return re.findall(r'data-row href="/t/(\w+)"', page)


def walk(client: Client, run: Run, query: str) -> list[str]:
    """The slugs on all pages, by following Next."""
    slugs: list[str] = []
    while True:
        page = get(client, run, query)
        slugs += listed(page)
        link = re.search(r'rel="next" href="\?([^"]*)"', page)
        if link is None:
            return slugs
        query = link[1]


def test_the_explorer_is_visible_to_the_team_only(played: Run, who: Visitors) -> None:
    for address in (f"/runs/{played.slug}/trajectories", f"/runs/{played.slug}/trajectories.json"):
        assert who.owner.get(address).status_code == 200
        assert who.viewer.get(address).status_code == 200
        assert_private(address, who)


def test_trajectories_of_a_public_run_are_public(played: Run, who: Visitors) -> None:
    Run.objects.update(visibility=Run.Visibility.LINK)
    assert len(listed(get(who.anonymous, played))) == 50
    assert len(listed(get(who.outsider, played))) == 50


def test_outsiders_do_not_see_stars_and_tags_of_the_team(played: Run, who: Visitors, people: People) -> None:
    Run.objects.update(visibility=Run.Visibility.LINK)
    first = Trajectory.objects.first()
    Star.objects.create(trajectory=first, user=people.owner)
    Tagging.objects.create(trajectory=first, tag=Tag.objects.create(team=people.team, name="odd"))
    for query in ("starred=yes", "tag=Odd"):
        assert len(listed(get(who.viewer, played, query))) == 1
        assert len(listed(get(who.outsider, played, query))) == 50
        assert "odd" not in get(who.outsider, played)
    assert "odd" in get(who.viewer, played)


@pytest.mark.parametrize(
    "sort", ["iteration", "place", "outcome", "reward", "turns", "actions", "tokens", "format", "kept", "environment"]
)
def test_the_pages_contain_every_trajectory_once_in_order(sort: str, played: Run, who: Visitors) -> None:
    everything = {item.slug: item for item in Trajectory.objects.select_related("group")}
    values = {
        "iteration": lambda item: item.iteration,
        "place": lambda item: (item.group.number, item.member),
        "outcome": lambda item: (item.status != "success", item.status != "failed", item.lost_at is not None),
        "reward": lambda item: item.total_reward,
        "turns": lambda item: item.turn_count,
        "actions": lambda item: item.action_count,
        "tokens": lambda item: item.token_count,
        "format": lambda item: item.format_error,
        "kept": lambda item: {True: 0, False: 1, None: 2}[item.group.kept],
        "environment": lambda item: item.group.environment,
    }
    value = values[sort]
    rising = walk(who.viewer, played, f"sort={sort}")
    assert rising == sorted(everything, key=lambda slug: (value(everything[slug]), everything[slug].pk))
    falling = walk(who.viewer, played, f"sort=-{sort}")
    assert sorted(falling) == sorted(everything)
    assert [value(everything[slug]) for slug in falling] == sorted(map(value, everything.values()), reverse=True)


def test_the_previous_link_returns_to_the_same_page(played: Run, who: Visitors) -> None:
    first = get(who.viewer, played, "sort=-reward")
    assert 'rel="prev"' not in first
    onward = re.search(r'rel="next" href="\?([^"]*)"', first)
    assert onward is not None
    second = get(who.viewer, played, onward[1])
    assert listed(second)
    assert not set(listed(first)) & set(listed(second))
    back = re.search(r'rel="prev" href="\?([^"]*)"', second)
    assert back is not None
    again = get(who.viewer, played, back[1])
    assert listed(again) == listed(first)
    assert 'rel="prev"' not in again


@pytest.mark.parametrize("cursor", ["x", "W10", "bnVsbA", "é", "A" * 5000, "WyItcmV3YXJkIiwxLDEsMV0"])
def test_an_invalid_cursor_shows_the_first_page_with_a_notice(cursor: str, played: Run, who: Visitors) -> None:
    page = get(who.viewer, played, f"at={cursor}")
    assert "showing the first page" in page
    assert listed(page) == listed(get(who.viewer, played))


def test_the_facts_summarise_the_results(played: Run, who: Visitors) -> None:
    found = list(Trajectory.objects.filter(iteration=2))
    solved = sum(item.status == "success" for item in found) / len(found)
    mean = sum(item.total_reward for item in found) / len(found)
    page = get(who.viewer, played, "iteration=2")
    assert f"{len(found)} found · {formatting.percent(solved)} solved · mean reward {formatting.signed(mean)}" in page


def test_invalid_values_are_reported_and_kept_in_their_field(played: Run, who: Visitors) -> None:
    page = get(who.viewer, played, "iteration_min=two&iteration_max=3&text=--")
    assert "“two” is not a whole number, such as 12." in page
    assert re.search(r'id="iteration_min"[^>]*value="two"[^>]*aria-invalid="true"', page)
    assert "Write at least one word" in page
    early = Trajectory.objects.filter(iteration__lte=3)
    assert set(listed(page)) == set(early.values_list("slug", flat=True))
    assert f"{early.count()} found" in page


def test_every_filter_has_a_chip_that_removes_it(played: Run, who: Visitors) -> None:
    page = get(who.viewer, played, "iteration=2&outcome=success&reward_min=-1")
    assert contains(page, 'href="?outcome=success&reward_min=-1" aria-label="Remove filter: iteration 2"')
    assert contains(page, 'href="?iteration=2&reward_min=-1" aria-label="Remove filter: solved"')
    assert contains(page, 'href="?iteration=2&outcome=success" aria-label="Remove filter: reward ≥ −1"')


def test_matches_are_highlighted_and_text_is_escaped(played: Run, who: Visitors) -> None:
    turn = Turn.objects.select_related("trajectory").filter(number=1).order_by("pk").first()
    assert turn is not None
    event = turn.event | {"thought": "I fear <script>alert(1)</script> & <b>zugzwang</b> here."}
    Turn.objects.filter(pk=turn.pk).update(event=event)
    response = who.viewer.get(f"/runs/{played.slug}/trajectories?text=zugzwang").content.decode()
    assert contains(response, "<mark>zugzwang</mark>")
    assert "Turn 2: " in response
    assert not contains(response, "<script>alert")
    assert not contains(response, "<b>zug")
    assert listed(response) == [turn.trajectory.slug]


def test_htmx_gets_the_partial_and_the_short_url(played: Run, who: Visitors) -> None:
    query = "iteration_min=2&iteration_max=&outcome=&text=&split=&tokens_min=x&sort=-reward"
    response = who.viewer.get(f"/runs/{played.slug}/trajectories?{query}", headers={"HX-Request": "true"})
    page = html.unescape(response.content.decode())
    assert "<html" not in page
    assert listed(page) == listed(get(who.viewer, played, query))
    assert response["HX-Push-Url"] == f"/runs/{played.slug}/trajectories?iteration_min=2&sort=-reward"
    assert "HX-Request" in response["Vary"]
    assert contains(page, '<span class="field-error" id="tokens_min-error" hx-swap-oob="true">“x” is not')
    whole = get(who.viewer, played, query)
    for name in re.findall(r'id="(\w+-error)" hx-swap-oob', page):
        assert f'id="{name}"' in whole, "the part replaces only what the page has"


def test_a_history_restore_gets_the_full_page(played: Run, who: Visitors) -> None:
    page = get(who.viewer, played, "", **{"HX-Request": "true", "HX-History-Restore-Request": "true"})
    assert "<html" in page


def test_an_empty_run_explains_the_page(run: Run, who: Visitors) -> None:
    assert "No trajectories yet" in get(who.viewer, run)
    assert "No trajectory matches" in get(who.viewer, run, "iteration=4")


@pytest.mark.parametrize("query", ["", "sort=-reward", "text=box+-nothing", "environment=Sokoban&kept=yes&alarm=no"])
def test_the_query_count_of_the_explorer_is_constant(
    query: str, played: Run, who: Visitors, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    Run.objects.filter(pk=played.pk).update(state=Run.State.FINISHED)
    with django_assert_max_num_queries(12):
        get(who.viewer, played, query)
    with django_assert_max_num_queries(10):
        get(who.viewer, played, query, **{"HX-Request": "true"})
