"""Trajectory page and its share links."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from urllib.parse import quote

import pytest
from django.db import connection
from django.http import QueryDict
from django.test import Client
from pytest_django import DjangoAssertNumQueries, Settings

from tests.tiers import nightly_but
from tests.webapp.explorer.scripted_run import write_story
from tests.webapp.fragments import contains
from tests.webapp.page_requests import Visitors, play, who
from webapp.core.database import statement_limit
from webapp.explorer import found
from webapp.explorer.trajectory_filters import Filters, filter_trajectories
from webapp.runs.models import Run
from webapp.trajectories.models import Trajectory
from webapp.trajectories.pagination import page

__all__ = ["who"]


@pytest.fixture(scope="module")
def played(module_run: Run) -> None:
    play(module_run)


@pytest.fixture
def trajectory(played: None, run: Run) -> Trajectory:
    longest = Trajectory.objects.filter(run=run).order_by("-turn_count").first()
    assert longest is not None
    return longest


def test_every_turn_can_be_read_without_javascript(trajectory: Trajectory, who: Visitors) -> None:
    page = html.unescape(who.viewer.get(f"/t/{trajectory.slug}").content.decode())
    for turn in trajectory.turns.all():
        assert turn.event["thought"] in page
        assert turn.event["state"] in page
        for number, action in enumerate(turn.event["actions"], start=1):
            assert f'href="?turn={turn.number + 1}&action={number}"' in page
            assert action["text"] in page


def test_the_data_endpoint_equals_the_page_data(trajectory: Trajectory, who: Visitors) -> None:
    data = who.viewer.get(f"/t/{trajectory.slug}.json").json()
    assert [turn["turn"] for turn in data["turns"]] == list(range(trajectory.turn_count))
    page = who.viewer.get(f"/t/{trajectory.slug}").content.decode()
    embedded = re.search(r'<script id="trajectory" type="application/json">(.*?)</script>', page, re.S)
    assert embedded is not None
    assert [turn["thought"] for turn in json.loads(embedded[1])["turns"]] == [turn["thought"] for turn in data["turns"]]


def test_members_of_the_group_are_linked_for_the_keyboard(trajectory: Trajectory, who: Visitors) -> None:
    page = who.viewer.get(f"/t/{trajectory.slug}").content.decode()
    other = Trajectory.objects.filter(group=trajectory.group).exclude(pk=trajectory.pk).get()
    assert contains(page, f'rel="next" data-next href="/t/{other.slug}"')


def test_the_page_takes_few_queries(
    trajectory: Trajectory, who: Visitors, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_max_num_queries(16):
        who.owner.get(f"/t/{trajectory.slug}")


def steps(client: Client, address: str) -> tuple[str, dict[str, str]]:
    """What the page says of the place within what was found, and the links to previous and next."""
    page = html.unescape(client.get(address).content.decode())
    words = re.search(r'found-number"[^>]*>(.*?)<', page, re.S)
    links = re.findall(r'rel="(prev|next)" data-\w+\s+href="([^"]*)"', page)
    return " ".join(words[1].split()) if words else "", dict(links)


@pytest.mark.parametrize(
    "query",
    nightly_but(
        ["sort=-iteration", "outcome=failed&sort=-reward", "sort=-place"],
        ["outcome=failed&sort=-reward"],
    ),
)
def test_the_player_goes_through_what_the_explorer_found(
    query: str, run: Run, tmp_path: Path, settings: Settings, who: Visitors
) -> None:
    settings.ECHOSCOPE_DATA_DIR = tmp_path
    write_story(run)
    filters = Filters.parse(QueryDict(query))[0]
    wanted = [item.slug for item in page(filter_trajectories(run, filters), filters.sort, None, 500).items]
    address, walked = f"/t/{wanted[0]}?found={quote(query)}", []
    while address:
        walked.append(re.search(r"/t/(\w+)", address)[1])  # type: ignore[index]
        words, links = steps(who.viewer, address)
        assert words == f"{len(walked)} of {len(wanted)}"
        assert ("prev" in links) == (len(walked) > 1)
        before, address = address, links.get("next", "")
        if len(walked) == 2:
            assert steps(who.viewer, links["prev"])[1]["next"] == before
    assert walked == wanted


def test_a_trajectory_that_is_not_found_goes_through_its_group(trajectory: Trajectory, who: Visitors) -> None:
    for query in ("iteration=99", "nonsense", "x" * 2000):
        words, links = steps(who.viewer, f"/t/{trajectory.slug}?found={quote(query)}")
        if query == "nonsense":
            assert words.endswith(f"of {Trajectory.objects.filter(run=trajectory.run).count()}")
        else:
            assert words == ""
            assert len(links) == 2


def test_stars_of_the_team_are_no_filter_for_others(trajectory: Trajectory, who: Visitors) -> None:
    Run.objects.update(visibility=Run.Visibility.LINK)
    assert steps(who.viewer, f"/t/{trajectory.slug}?found=starred%3Dyes")[0] == ""
    assert steps(who.anonymous, f"/t/{trajectory.slug}?found=starred%3Dyes")[0] != ""


def test_a_place_that_takes_too_long_to_find_is_left_out(
    trajectory: Trajectory, who: Visitors, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(*_: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(20)")

    address = f"/t/{trajectory.slug}?found={quote('sort=turns')}"
    assert steps(who.viewer, address)[0] != ""
    monkeypatch.setattr(found, "SECONDS", 0.1)
    monkeypatch.setattr(found, "_place", slow)
    words, links = steps(who.viewer, address)
    assert (words, len(links)) == ("", 2)


def test_the_limit_of_a_statement_ends_with_its_part_of_the_transaction(trajectory: Trajectory) -> None:
    def limit() -> str:
        with connection.cursor() as cursor:
            cursor.execute("SHOW statement_timeout")
            return str(cursor.fetchone()[0])

    before = limit()
    with statement_limit(7):
        assert limit() == "7s"
    assert limit() == before
