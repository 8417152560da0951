"""Playing an environment on its page: its rules and rewards, the policy's budgets, one game per user and state."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client
from pytest_django import DjangoAssertNumQueries

import envs
from tests.envs.playable_names import PLAYABLE
from tests.envs.plugins import offering
from tests.webapp.fragments import contains
from tests.webapp.page_requests import Visitors, play, who
from webapp.play import environment_info, sessions, starts
from webapp.play.starts import Start
from webapp.runs.models import Run
from webapp.trajectories.models import Group, Trajectory

__all__ = ["who"]

HTMX = {"HX-Request": "true"}


def act(client: Client, name: str, action: str, **fields: str) -> str:
    """The game after that action, as the returned partial."""
    return text_of(client.post(f"/environments/{name}/play", {"action": action, **fields}, headers=HTMX))


def text_of(response: HttpResponse) -> str:
    assert response.status_code == 200, response
    return html.unescape(response.content.decode())


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script id="play-data" type="application/json">(.*?)</script>', page, re.S)
    assert found is not None, page
    data: dict[str, Any] = json.loads(found[1])
    return data


def solution(seed: int, dynamics: int) -> list[str]:
    env = envs.make("Sokoban")
    env.reset(seed=seed, options={"dynamics_seed": dynamics})
    actions = []
    while (hint := env.hint()) and hint.actions:
        actions.append(hint.actions[0])
        env.step(hint.actions[0])
    return actions


def evaluation_start(number: int) -> Start:
    spec = envs.spec("Sokoban")
    return starts.find(None, spec, "Sokoban", f"prompt={number}")


@pytest.mark.parametrize("name", PLAYABLE)
def test_every_environment_has_a_page_with_a_game(name: str, who: Visitors) -> None:
    page = text_of(who.viewer.get(f"/environments/{name}"))
    assert "Play it yourself" in page
    assert "Puzzle 1 of the evaluation" in page
    assert envs.spec(name).success in html.unescape(page)


def test_an_unknown_environment_is_404(who: Visitors) -> None:
    assert who.owner.get("/environments/Chess").status_code == 404
    assert who.owner.post("/environments/Chess/play", {"action": "e4"}).status_code == 404


def test_rewards_match_the_environment_to_the_end(who: Visitors) -> None:
    start = evaluation_start(3)
    env = envs.make("Sokoban")
    env.reset(seed=start.seed, options={"dynamics_seed": start.dynamics})
    actions = solution(start.seed, start.dynamics or 0)
    total, page = 0.0, ""
    for number, action in enumerate(actions):
        page = act(who.owner, "Sokoban", action.upper(), prompt="3", at=str(number))
        total += env.step(action)[1]
        assert data_of(page)["board"] == env.board().model_dump(exclude_none=True)
    assert data_of(page)["over"]
    assert f"Solved in {len(actions)} actions, reward +{total:g}." in page
    assert f"The optimum is {len(actions)} actions." in page
    after = act(who.owner, "Sokoban", "Up", prompt="3")
    assert data_of(after)["taken"] == len(actions)


def test_a_game_has_the_budget_of_the_policy(who: Visitors) -> None:
    spec = envs.spec("Sokoban")
    blocked = "Up"
    page = ""
    for _ in range(spec.max_actions):
        page = act(who.owner, "Sokoban", blocked, seed="7")
        blocked = "Down" if blocked == "Up" else "Up"
    if not data_of(page)["status"].startswith("Solved"):
        assert "Out of actions after 10" in page
    assert data_of(page)["over"]


def test_a_game_continues_in_another_site_process(who: Visitors, monkeypatch: pytest.MonkeyPatch) -> None:
    act(who.owner, "FrozenLake", "Right", seed="4")
    here = data_of(act(who.owner, "FrozenLake", "Down", seed="4"))
    other = sessions.SessionPool()
    monkeypatch.setattr("webapp.play.games.SESSIONS", other)
    there = data_of(text_of(who.owner.get("/environments/FrozenLake?seed=4")))
    assert there == here


def test_every_user_has_a_separate_game(who: Visitors) -> None:
    act(who.owner, "Sokoban", "Up", prompt="5")
    assert data_of(text_of(who.viewer.get("/environments/Sokoban?prompt=5")))["taken"] == 0
    assert data_of(text_of(who.owner.get("/environments/Sokoban?prompt=5")))["taken"] == 1
    assert data_of(text_of(who.owner.get("/environments/Sokoban")))["taken"] == 1, "the game played last"


def test_an_invalid_action_is_explained_and_costs_nothing(who: Visitors) -> None:
    page = act(who.owner, "Sokoban", "Jump", prompt="1")
    assert "“Jump” is not an action here. Actions: Up, Down, Left, Right." in page
    assert data_of(page)["taken"] == 0
    assert "Enter an action." in act(who.owner, "Sokoban", " ", prompt="1")
    assert "at most 1,000 characters" in act(who.owner, "Countdown", "1" * 1001, prompt="1")


def test_an_action_for_an_outdated_state_is_rejected(who: Visitors) -> None:
    act(who.owner, "Sokoban", "Up", prompt="1", at="0")
    page = act(who.owner, "Sokoban", "Up", prompt="1", at="0")
    assert "This game continued in another window." in page
    assert data_of(page)["taken"] == 1


def test_a_restart_begins_at_the_same_state(who: Visitors) -> None:
    first = data_of(text_of(who.owner.get("/environments/Sokoban?seed=11")))["board"]
    act(who.owner, "Sokoban", "Up", seed="11")
    page = text_of(who.owner.post("/environments/Sokoban/play", {"do": "restart", "seed": "11"}, headers=HTMX))
    assert data_of(page)["board"] == first
    assert data_of(page)["taken"] == 0


def test_a_requested_hint_is_shown_and_counted(who: Visitors) -> None:
    start = evaluation_start(2)
    env = envs.make("Sokoban")
    env.reset(seed=start.seed)
    best = env.hint()
    assert best is not None
    assert "Best:" not in text_of(who.owner.get("/environments/Sokoban?prompt=2"))
    page = text_of(who.owner.post("/environments/Sokoban/play", {"do": "hint", "prompt": "2"}, headers=HTMX))
    assert f"Best: {' or '.join(best.actions[:3])}; {best.distance} action" in page
    assert data_of(page)["advice"] == best.actions[0]
    after = act(who.owner, "Sokoban", best.actions[0], prompt="2")
    assert data_of(after)["advice"] is None


def test_a_game_works_without_javascript(who: Visitors) -> None:
    answer = who.owner.post("/environments/Sokoban/play", {"action": "Left", "prompt": "9"})
    assert answer["Location"] == "/environments/Sokoban?prompt=9#game"
    page = text_of(who.owner.get("/environments/Sokoban?prompt=9"))
    assert contains(page, 'name="action" value="Left"')
    assert contains(page, 'name="prompt" value="9"')
    assert contains(page, 'name="at" value="1"')
    refused = who.owner.post("/environments/Sokoban/play", {"action": "Sing", "prompt": "9"}, follow=True)
    assert "“Sing” is not an action here." in text_of(refused)


def test_a_bandit_game_ends_after_one_pull(who: Visitors) -> None:
    page = text_of(who.owner.get("/environments/Bandit?prompt=1"))
    arms = re.findall(r'name="action" value="([^"]+)" data-keys="(\d)"', page)
    assert [key for _, key in arms] == ["1", "2"]
    page = act(who.owner, "Bandit", arms[0][0], prompt="1")
    assert data_of(page)["over"]


def test_a_shop_is_navigated_by_its_own_buttons(who: Visitors) -> None:
    page = text_of(who.owner.get("/environments/WebShop?prompt=1"))
    assert 'name="words"' in page
    page = text_of(
        who.owner.post(
            "/environments/WebShop/play",
            {"action": "search[keywords]", "words": " red  shoes", "prompt": "1"},
            headers=HTMX,
        )
    )
    assert "search[red shoes]" in page
    products = re.findall(r'name="action" value="(click\[[^"]+\])"', page)
    assert len(products) > 3
    page = act(who.owner, "WebShop", products[-1], prompt="1")
    assert data_of(page)["taken"] == 2
    wrong = act(who.owner, "WebShop", "click[nothing of this kind]", prompt="1")
    assert "is not possible here. Nothing was done, and no action was used." in wrong


@pytest.mark.parametrize("query", ["prompt=0", "prompt=257", "seed=x", "seed=99999999999", "prompt=-1"])
def test_unknown_states_are_explained(query: str, who: Visitors) -> None:
    answer = who.owner.get(f"/environments/Sokoban?{query}", follow=True)
    assert answer.redirect_chain[0][0] == "/environments/Sokoban"
    assert 'class="note warning"' in answer.content.decode()


def test_a_trajectory_state_is_playable_by_its_readers(run: Run, who: Visitors) -> None:
    play(run)
    one = Trajectory.objects.filter(run=run).select_related("group").first()
    assert one is not None
    page = text_of(who.viewer.get(f"/environments/Sokoban?of={one.slug}"))
    assert data_of(page)["board"] == one.group.board
    assert "The agent's attempt" in page
    assert len(data_of(page)["ghost"]) == 1
    assert "The dashed line is the agent" in page
    assert who.outsider.get(f"/environments/Sokoban?of={one.slug}").status_code == 404
    assert who.owner.get(f"/environments/Bandit?of={one.slug}").status_code == 404


def test_at_the_end_runs_on_the_same_state_are_compared(run: Run, who: Visitors) -> None:
    play(run)
    one = Trajectory.objects.filter(run=run).select_related("group").first()
    assert one is not None
    solved = Trajectory.objects.filter(group=one.group, status="success").count()
    played = Trajectory.objects.filter(group=one.group).count()
    actions = solution(one.group.seed, 0)
    assert len(actions) <= 10
    page = ""
    for action in actions:
        page = act(who.viewer, "Sokoban", action, of=one.slug)
    assert f"{solved} of {played}" in page
    assert "Trial" in page
    assert len(data_of(page)["ghost"]) > 1
    assert re.search('data-duel="(you|nobody)"', page), "best play is never worse than the agent"
    page = ""
    for action in actions:  # another room of the same seed is another state
        Group.objects.filter(pk=one.group_id).update(board={"kind": "text", "text": ""})
        page = act(who.owner, "Sokoban", action, of=one.slug)
    assert "No run of your team has played this puzzle." in page
    assert "data-duel" not in page


def test_the_page_takes_few_queries(
    run: Run, who: Visitors, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    play(run, finished=3)
    who.owner.get("/environments/Sokoban")
    with django_assert_max_num_queries(5):
        who.owner.get("/environments/Sokoban")


def test_a_hanging_third_party_environment_ends_only_its_own_game(
    tmp_path: Path, who: Visitors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "STEP_SECONDS", 1.0)
    with offering(tmp_path, Stuck="tests.webapp.play.third_party_envs:Stuck"):
        environment_info._made.cache_clear()
        assert data_of(act(who.owner, "Stuck", "Go", seed="1"))["taken"] == 1
        page = act(who.owner, "Stuck", "Go", seed="1")
        assert "no answer to step('Go') within 1 s" in page or data_of(page)["taken"] == 1
        assert data_of(act(who.owner, "Sokoban", "Up", prompt="1"))["taken"] == 1
    environment_info._made.cache_clear()


def test_rooms_that_need_a_compiler_are_generated_in_another_process() -> None:
    spec = envs.spec("Sokoban")
    small = starts.find(None, spec, "Sokoban", "seed=1")
    assert sessions.is_available(small)
    assert not sessions.is_available(Start("Boxoban", "seed=1", 1, 24, 5, 120))
    assert not sessions.is_available(
        Start("Sokoban", "of=x", 1, 5, 5, 10, settings={"size": 12, "boxes": 4, "max_length": 60})
    )
    assert not sessions.is_available(Start("WebShop", "seed=1", 1, 9, 1, 9))


def test_a_request_during_generation_gets_a_retry_page(who: Visitors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "ANSWER_TIMEOUT", 0.0)
    page = text_of(who.owner.get("/environments/WebShop?prompt=4"))
    assert "Preparing" in page
    assert 'hx-trigger="load delay:1s"' in page


@pytest.mark.parametrize(
    "environment",
    [
        {"name": "Countdown", "settings": {"path": "/etc/shadow"}},
        {"name": "Sokoban", "mix": [{"name": "Countdown", "share": 0.5, "settings": {"path": "/etc/shadow"}}]},
    ],
)
def test_the_site_reads_no_file_that_an_imported_run_names(
    environment: dict[str, Any], run: Run, who: Visitors
) -> None:
    play(run)
    Group.objects.update(environment="Countdown")
    Run.objects.update(config=run.config | {"environment": environment})
    one = Trajectory.objects.first()
    assert one is not None
    page = text_of(who.owner.get(f"/environments/Countdown?of={one.slug}", follow=True))
    assert "comes from a file on the worker, which the site cannot read" in page
    assert "/etc/shadow" not in page
