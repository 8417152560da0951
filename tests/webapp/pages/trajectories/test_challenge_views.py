"""The puzzle of a shared attempt, played without an account."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.http import HttpResponse
from django.utils import timezone

from tests.webapp.page_requests import Visitors
from tests.webapp.trajectories.shared_trajectory import link, story, trajectory, who
from webapp.pages.trajectories import challenge_views
from webapp.play import sessions
from webapp.runs.models import Run
from webapp.trajectories.models import Group, ShareLink, Trajectory

__all__ = ["link", "story", "trajectory", "who"]


@pytest.fixture(autouse=True)
def _sessions(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    visitors = sessions.SessionPool()
    monkeypatch.setattr("webapp.play.games.VISITOR_SESSIONS", visitors)
    monkeypatch.setattr(sessions, "ANSWER_TIMEOUT", 120.0)
    yield
    visitors.close()


def text_of(response: HttpResponse) -> str:
    assert response.status_code == 200
    return html.unescape(response.content.decode())


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script id="play-data" type="application/json">(.*?)</script>', page, re.S)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


def solution(link: ShareLink) -> list[str]:
    """Actions of the solver from the initial state."""
    start = challenge_views.start_of_challenge(link.trajectory)
    assert start is not None
    env = sessions.envs.make(start.environment, start.settings)
    env.reset(seed=start.seed)
    actions: list[str] = []
    while (hint := env.hint()) is not None and hint.actions:
        actions.append(hint.actions[0])
        env.step(actions[-1])
    return actions


def test_the_shared_page_offers_the_puzzle_with_the_agents_board_and_budget(link: ShareLink, who: Visitors) -> None:
    address = f"/s/{link.token}/play"
    assert f'href="{address}">Play this puzzle</a>' in text_of(who.anonymous.get(f"/s/{link.token}"))
    page = text_of(who.anonymous.get(address))
    data = data_of(page)
    assert data["board"] == link.trajectory.group.board
    assert len(data["ghost"]) == 1, "the agent has not moved yet"
    start = challenge_views.start_of_challenge(link.trajectory)
    assert start is not None
    assert f"0 of {start.budget}" in page


def test_the_address_is_the_game_and_the_end_says_who_did_better(link: ShareLink, who: Visitors) -> None:
    Trajectory.objects.filter(pk=link.trajectory_id).update(status=Trajectory.Status.FAILED)
    best = solution(link)
    address = f"/s/{link.token}/play"
    before = who.anonymous.get(address, {"move": best[:-1]})
    assert data_of(text_of(before))["taken"] == len(best) - 1
    assert "data-duel" not in text_of(before)
    end = who.anonymous.get(address, {"move": best[:-1], "action": best[-1]}, headers={"HX-Request": "true"})
    page = text_of(end)
    assert "<html" not in page, "only the game"
    assert 'data-duel="you"' in page
    assert data_of(page)["over"]
    beyond = who.anonymous.get(address, {"move": [*best, "Up", "Up"]})
    assert data_of(text_of(beyond))["taken"] == len(best), "actions after the end are not executed"
    assert not any(response.cookies for response in (before, end, beyond))


def test_an_unknown_action_is_refused_with_the_possible_ones(link: ShareLink, who: Visitors) -> None:
    address = f"/s/{link.token}/play"
    page = text_of(who.anonymous.get(address, {"action": "<b>Jump</b>"}))
    assert "is not an action here. Actions: Up, Down, Left, Right." in page
    assert data_of(page)["taken"] == 0
    assert who.anonymous.get(address, {"move": ["Jump"]}).status_code == 404


def test_the_page_names_neither_run_nor_people(link: ShareLink, who: Visitors) -> None:
    page = text_of(who.anonymous.get(f"/s/{link.token}/play"))
    private = (link.trajectory.slug, link.trajectory.run.slug, link.trajectory.run.title, "ada", "Agents", "csrf")
    assert [name for name in private if name in page] == []
    assert who.anonymous.post(f"/s/{link.token}/play").status_code == 405


def test_a_revoked_link_cannot_be_played(link: ShareLink, who: Visitors) -> None:
    ShareLink.objects.filter(pk=link.pk).update(revoked_at=timezone.now() - timedelta(minutes=1))
    response = who.anonymous.get(f"/s/{link.token}/play")
    assert response.status_code == 404
    assert response["X-Robots-Tag"] == "noindex, nofollow"


@pytest.mark.parametrize("change", ["playing", "recorded", "environment", "board"])
def test_only_ended_attempts_at_puzzles_of_this_version_can_be_played(
    link: ShareLink, who: Visitors, change: str
) -> None:
    group = Group.objects.filter(pk=link.trajectory.group_id)
    match change:
        case "playing":
            Trajectory.objects.filter(pk=link.trajectory_id).update(status=Trajectory.Status.PLAYING)
        case "recorded":
            Run.objects.filter(pk=link.trajectory.run_id).update(config={"recorded": {}})
        case "environment":
            group.update(environment="WebShop")
        case "board":
            group.update(board=link.trajectory.group.board | {"rows": ["#####", "#@$.#", "#####"]})
    assert who.anonymous.get(f"/s/{link.token}/play").status_code == 404


def test_too_many_actions_have_to_wait(link: ShareLink, who: Visitors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(challenge_views, "PER_VISITOR", 2)
    monkeypatch.setattr(challenge_views, "client_address", lambda request: "192.0.2.7")  # other tests keep their bucket
    address = f"/s/{link.token}/play"
    assert [who.anonymous.get(address).status_code for _ in range(3)] == [200, 200, 429]
