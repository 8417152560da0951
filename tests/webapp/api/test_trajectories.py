"""Trajectories and their share links over HTTP."""

from __future__ import annotations

from dataclasses import fields
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from tests.webapp.api.api_clients import Callers, problem
from tests.webapp.explorer.scripted_run import write_story
from tests.webapp.page_requests import play
from tests.webapp.trajectories.scripted_attempt import LOCKED, events, sokoban
from webapp.api.routes.trajectories import Sort, TrajectoryQuery
from webapp.explorer.trajectory_filters import Filters
from webapp.runs.models import Run
from webapp.trajectories.models import Trajectory
from webapp.trajectories.pagination import SORTS


@pytest.fixture(scope="module")
def story(module_run: Run) -> None:
    play(module_run, 3)


@pytest.fixture
def played(story: None, run: Run) -> Run:
    return run


def test_every_filter_and_order_of_the_explorer_is_supported() -> None:
    here = set(TrajectoryQuery.model_fields) - {"limit", "cursor"}
    there = {field.name for field in fields(Filters)} - {"hide", "view"}  # columns and labels are of the page only
    assert here == there - {"group"} | {"group_number"}
    assert {name.removeprefix("-") for name in Sort.__args__} == set(SORTS)  # type: ignore[attr-defined]


@pytest.mark.parametrize("sort", ["-iteration", "reward", "-turns", "outcome"])
def test_pages_have_no_gap_or_duplicate(callers: Callers, played: Run, sort: str) -> None:
    found: list[str] = []
    cursor = ""
    while True:
        path = f"/api/runs/{played.slug}/trajectories?limit=5&sort={sort}{'&cursor=' + cursor if cursor else ''}"
        page = callers.viewer.get(path).json()
        found += [item["slug"] for item in page["items"]]
        cursor = page["next_cursor"]
        if not cursor:
            break
    assert len(found) == 12
    assert set(found) == set(Trajectory.objects.filter(run=played).values_list("slug", flat=True))


def test_filters_narrow_the_results(callers: Callers, played: Run) -> None:
    base = f"/api/runs/{played.slug}/trajectories"
    found = callers.owner.get(f"{base}?iteration_min=2&iteration_max=2&success=true").json()["items"]
    expected = Trajectory.objects.filter(run=played, iteration=2, status="success").count()
    assert len(found) == expected
    assert all(item["iteration"] == 2 and item["status"] == "success" for item in found)
    assert callers.owner.get(f"{base}?environment=Bandit").json() == {"items": [], "next_cursor": None}
    assert len(callers.owner.get(f"{base}?text=target").json()["items"]) == 12


def test_marks_kinds_of_claims_and_groups_from_1_are_filtered_by(callers: Callers, played: Run) -> None:
    base = f"/api/runs/{played.slug}/trajectories"
    chosen = Trajectory.objects.filter(run=played).order_by("pk")[0]
    Trajectory.objects.filter(pk=chosen.pk).update(
        worst_mark=2,
        first_mistake_turn=1,
        false_claims=2,
        false_claim_kinds=["box_position", "wall"],
        commentary="Pushed a box into a corner.",
    )
    for query in ("mark=mistake", "mistake_turn=2", "false_claim_kinds=wall,size", "false_claim_kinds=size+wall"):
        (item,) = callers.owner.get(f"{base}?{query}").json()["items"]
        assert item["slug"] == chosen.slug, query
    assert (item["worst_mark"], item["first_mistake_turn"]) == ("mistake", 1)
    assert item["false_claim_kinds"] == ["box_position", "wall"]
    assert item["commentary"] == "Pushed a box into a corner."
    by_mark = callers.owner.get(f"{base}?sort=-mark&limit=1").json()["items"]
    assert by_mark == [item]
    others = callers.owner.get(f"{base}?sort=mark").json()["items"]
    assert {other["worst_mark"] for other in others[:-1]} == {None}
    assert callers.owner.get(f"{base}?group_number=1").json()["items"]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("group_number=0", "group_number"),
        ("false_claim_kinds=weather", "false_claim_kinds"),
        ("mark=great", "mark"),
        ("reward_min=2&reward_max=1", "reward_max"),
        ("sort=colour", "sort"),
        ("iteration=-1", "iteration"),
        ("text=%3F%3F", "text"),
        ("cursor=abc", "cursor"),
        ("limit=1000", "limit"),
    ],
)
def test_an_invalid_filter_is_reported(callers: Callers, played: Run, query: str, field: str) -> None:
    answer = callers.owner.get(f"/api/runs/{played.slug}/trajectories?{query}")
    assert (answer.status_code, list(problem(answer)["fields"])) == (422, [field])


def test_a_page_of_trajectories_takes_few_queries(
    callers: Callers, played: Run, django_assert_max_num_queries: Any
) -> None:
    with django_assert_max_num_queries(5):  # the token, when it was used, the run, the reader's teams, its trajectories
        callers.owner.get(f"/api/runs/{played.slug}/trajectories")


def test_a_trajectory_has_prompt_first_board_and_every_turn(callers: Callers, played: Run) -> None:
    found = Trajectory.objects.filter(run=played).order_by("-turn_count")[0]
    payload = callers.viewer.get(f"/api/trajectories/{found.slug}").json()
    assert (payload["trajectory"]["slug"], payload["trajectory"]["run"]) == (found.slug, played.slug)
    assert payload["board"]["kind"] == "grid"
    assert [turn["turn"] for turn in payload["turns"]] == list(range(found.turn_count))
    assert payload["turns"][0]["thought"].startswith("I look at the board")


def test_a_share_link_is_created_opens_publicly_and_is_revoked(callers: Callers, played: Run) -> None:
    found = Trajectory.objects.filter(run=played)[0]
    path = f"/api/trajectories/{found.slug}/shares"
    ends = timezone.now() + timedelta(days=2)
    made = callers.owner.post(path, {"turn": 0, "expires_at": ends.isoformat()})
    assert made.status_code == 201, made.content
    link = made.json()
    assert (link["turn"], link["revoked_at"], link["trajectory"]) == (0, None, found.slug)
    assert Client().get(link["url"]).status_code == 200
    assert [share["token"] for share in callers.viewer.get(path).json()] == [link["token"]]
    assert callers.owner.call("DELETE", f"/api/shares/{link['token']}").json()["revoked_at"]
    assert callers.owner.call("DELETE", f"/api/shares/{link['token']}").status_code == 200, "twice is as good as once"
    assert Client().get(link["url"]).status_code in (404, 410)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"expires_at": "2001-01-01T00:00:00Z"}, "expires_at"),
        ({"expires_at": "2101-01-01T00:00:00"}, "expires_at"),
        ({"expires_at": "soon"}, "expires_at"),
        ({"turn": 99}, "turn"),
        ({"action": 1}, "action"),
    ],
)
def test_an_unusable_share_link_is_not_created(callers: Callers, played: Run, body: dict[str, Any], field: str) -> None:
    found = Trajectory.objects.filter(run=played)[0]
    answer = callers.owner.post(f"/api/trajectories/{found.slug}/shares", body)
    assert (answer.status_code, list(problem(answer)["fields"])) == (422, [field])
    assert not found.shares.exists()


def test_a_trajectory_has_the_marks_of_its_mistakes_and_a_verdict(callers: Callers, run: Run) -> None:
    write_story(run, list(events(sokoban(), LOCKED)))
    trajectory = Trajectory.objects.get(run=run)
    answer = callers.viewer.get(f"/api/trajectories/{trajectory.slug}").json()
    assert [(mark["turn"], mark["action"], mark["kind"], mark["better"]) for mark in answer["marks"]] == [
        (1, 1, "inaccuracy", ["Left"]),
        (1, 2, "blunder", ["Up"]),
    ]
    assert answer["marks"][1]["cells"] == [[3, 1]]
    assert answer["marks"][1]["loss"] == pytest.approx(answer["marks"][1]["value"])
    assert answer["verdict"] == {
        "kind": "mistake",
        "turn": 1,
        "action": 2,
        "sentence": "Turn 2: Left locked the box in a corner. Up would have won in 5.",
    }
