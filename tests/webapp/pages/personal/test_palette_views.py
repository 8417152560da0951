"""Search of the command palette: who finds what, bounds."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from tests.webapp.conftest import People
from tests.webapp.page_requests import logged_in
from webapp.pages.personal.palette_views import MAX_RUNS
from webapp.runs.models import Run
from webapp.teams.models import User

pytestmark = pytest.mark.django_db


def found(user: User, query: str = "") -> dict[str, list[str]]:
    client = Client()
    client.force_login(user)
    groups: list[dict[str, Any]] = client.get("/palette.json", {"q": query}).json()["groups"]
    return {group["title"]: [item["title"] for item in group["items"]] for group in groups}


def test_it_finds_runs_by_title_tag_and_environment(people: People, run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(tags=["baseline"])
    for query in ("tri", "BASEL", "sokoban trial", run.slug, "queued", ""):
        assert found(people.viewer, query)["Runs"] == ["Trial"], query
    assert "Runs" not in found(people.viewer, "trial nothing")


def test_it_finds_environments_and_teams_of_the_user(people: People) -> None:
    assert found(people.owner, "frozen")["Environments"] == ["FrozenLake", "FrozenLake-v1", "FrozenLake8x8-v1"]
    assert found(people.owner, "agents")["Teams"] == ["Agents"]
    assert "Teams" not in found(people.owner, "elsewhere")


def test_outsiders_and_other_members_find_no_hidden_run(people: People, run: Run) -> None:
    assert "Runs" not in found(people.outsider, "trial")
    Run.objects.filter(pk=run.pk).update(visibility=Run.Visibility.PRIVATE)
    assert "Runs" not in found(people.viewer, "trial")
    assert found(people.owner, "trial")["Runs"] == ["Trial"]
    Run.objects.filter(pk=run.pk).update(visibility=Run.Visibility.LINK)
    assert "Runs" not in found(people.outsider, "trial"), "a public run is found by its link, not by search"


def test_results_and_queries_are_bounded(
    people: People, run: Run, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(2 * MAX_RUNS):
        run.pk, run.slug = None, f"copy{number}"
        run.save()
    client = logged_in(people.owner)
    with django_assert_max_num_queries(4):
        groups = client.get("/palette.json", {"q": "t" + " t" * 500}).json()["groups"]
    assert len(groups[0]["items"]) == MAX_RUNS
