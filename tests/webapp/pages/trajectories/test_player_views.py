"""Trajectory page and its share links."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest
from pytest_django import DjangoAssertNumQueries, Settings

from tests.webapp.fragments import contains
from tests.webapp.page_requests import Visitors, assert_private, play, who
from webapp.runs.models import Run
from webapp.trajectories.models import Trajectory

__all__ = ["who"]


@pytest.fixture
def trajectory(run: Run, tmp_path: Path, settings: Settings) -> Trajectory:
    settings.ECHOSCOPE_DATA_DIR = tmp_path
    play(run)
    found = Trajectory.objects.filter(run=run).order_by("-turn_count").first()
    assert found is not None
    return found


def test_the_trajectory_page_is_visible_to_the_team_only(trajectory: Trajectory, who: Visitors) -> None:
    assert who.owner.get(f"/t/{trajectory.slug}?turn=1&action=2").status_code == 200
    assert who.viewer.get(f"/t/{trajectory.slug}").status_code == 200
    for address in (f"/t/{trajectory.slug}", f"/t/{trajectory.slug}.json"):
        assert_private(address, who)


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
    with django_assert_max_num_queries(13):
        who.owner.get(f"/t/{trajectory.slug}")
