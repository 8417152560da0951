"""Saved views: saving, opening, sharing, renaming, deleting, in the explorer and in the list of runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings

from tests.webapp.conftest import People
from tests.webapp.explorer.scripted_run import write_story
from tests.webapp.page_requests import Visitors, who
from webapp.runs.models import Run
from webapp.saved_views import actions
from webapp.saved_views.models import SavedView
from webapp.teams.models import Membership

__all__ = ["who"]


@pytest.fixture
def played(run: Run, tmp_path: Path, settings: Settings) -> Run:
    settings.ECHOSCOPE_DATA_DIR = tmp_path
    return write_story(run)


def menu(client: Client, address: str) -> dict[str, str]:
    """The links of the views menu by text."""
    page = client.get(address).content.decode()
    part = re.search(r'views-menu">(.*?)</details>', page, re.S)
    assert part is not None
    links = re.findall(r'<a href="\?([^"]*)">([^<]*)', part[1])
    return {name.strip(): query.replace("&amp;", "&") for query, name in links}


def save(client: Client, **data: str) -> str:
    """Save a view; returns where the answer leads."""
    response = client.post("/views/save", data)
    assert response.status_code == 302, response.content[:300]
    return str(response["Location"])


def test_a_view_of_the_explorer_keeps_filters_order_and_columns(played: Run, who: Visitors) -> None:
    query = "reason=box_corner&sort=-reward&hide=tokens+kept&at=xyz&nonsense=1&turns_min=x"
    there = save(who.viewer, name="  In   corners ", query=query, run=played.slug)
    assert there == f"/runs/{played.slug}/trajectories?reason=box_corner&sort=-reward&hide=tokens+kept"
    assert menu(who.viewer, f"/runs/{played.slug}/trajectories") == {
        "In corners": "reason=box_corner&sort=-reward&hide=tokens+kept"
    }
    assert menu(who.owner, f"/runs/{played.slug}/trajectories") == {}
    assert "In corners" not in menu(who.viewer, "/")


def test_a_view_of_the_run_list_is_found_there(run: Run, who: Visitors) -> None:
    assert (
        save(who.owner, name="Failed ones", query="?state=failed&sort=newest&hide=author")
        == "/?state=failed&hide=author"
    )
    assert menu(who.owner, "/") == {"Failed ones": "state=failed&hide=author"}


def test_a_shared_view_is_seen_by_the_team_only(played: Run, who: Visitors, people: People) -> None:
    save(who.owner, name="Ours", query="outcome=lost", run=played.slug, team=people.team.slug)
    assert "Ours" in menu(who.viewer, f"/runs/{played.slug}/trajectories")
    Run.objects.update(visibility=Run.Visibility.LINK)
    assert "Ours" not in menu(who.outsider, f"/runs/{played.slug}/trajectories")
    assert "views-menu" not in who.anonymous.get(f"/runs/{played.slug}/trajectories").content.decode()
    Membership.objects.filter(user=people.owner).delete()
    assert "Ours" not in menu(who.viewer, f"/runs/{played.slug}/trajectories")


def test_views_are_not_shared_with_a_team_of_others(played: Run, who: Visitors, people: People) -> None:
    data = {"name": "Mine", "query": "", "team": people.team.slug}
    assert who.outsider.post("/views/save", data).status_code == 404
    assert who.outsider.post("/views/save", {"name": "Mine", "run": played.slug}).status_code == 404
    assert not SavedView.objects.exists()


def test_saving_under_the_same_name_replaces_the_view(run: Run, who: Visitors) -> None:
    save(who.owner, name="Mine", query="state=failed")
    save(who.owner, name="Mine", query="state=running")
    assert list(SavedView.objects.values_list("name", "query")) == [("Mine", "state=running")]


def test_views_are_renamed_and_deleted_by_their_author(run: Run, who: Visitors, people: People) -> None:
    save(who.owner, name="Mine", query="state=failed", team=people.team.slug)
    save(who.owner, name="Other", query="state=running")
    view = SavedView.objects.get(name="Mine")
    for client in (who.viewer, who.outsider):
        assert client.post(f"/views/{view.pk}/rename", {"name": "Theirs"}).status_code == 404
        assert client.post(f"/views/{view.pk}/delete").status_code == 404
    taken = who.owner.post(f"/views/{view.pk}/rename", {"name": "Other"}, follow=True).content.decode()
    assert "You have another view called “Other”" in taken
    page = who.owner.post(f"/views/{view.pk}/rename", {"name": "Renamed"}, follow=True).content.decode()
    assert 'value="Renamed"' in page
    assert "Renamed" in who.viewer.get("/views").content.decode()
    page = who.owner.post(f"/views/{view.pk}/delete", follow=True).content.decode()
    assert "Deleted “Renamed”." in page
    assert list(SavedView.objects.values_list("name", flat=True)) == ["Other"]


@pytest.mark.parametrize("name", ["", "   ", "x" * 61])
def test_a_bad_name_is_refused_with_a_reason(name: str, run: Run, who: Visitors) -> None:
    response = who.owner.post("/views/save", {"name": name, "query": ""}, follow=True)
    assert "name" in response.content.decode()
    assert not SavedView.objects.exists()


def test_a_person_has_a_limited_number_of_views(run: Run, who: Visitors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actions, "MAX_VIEWS", 1)
    save(who.owner, name="Mine", query="")
    response = who.owner.post("/views/save", {"name": "Second", "query": ""}, follow=True)
    assert "Delete one that you do not need." in response.content.decode()
    save(who.owner, name="Mine", query="state=failed")
    assert SavedView.objects.get().query == "state=failed"


def test_readers_save_views_for_themselves_only(run: Run, who: Visitors, people: People) -> None:
    data = {"name": "Mine", "query": "state=failed"}
    assert who.viewer.post("/views/save", data | {"team": people.team.slug}).status_code == 403
    assert not SavedView.objects.exists()
    save(who.viewer, **data)
    offered = f'<option value="{people.team.slug}">'
    assert offered not in who.viewer.get("/").content.decode()
    assert offered in who.owner.get("/").content.decode()


def test_who_may_only_read_by_now_does_not_rename_a_shared_view(run: Run, who: Visitors, people: People) -> None:
    save(who.owner, name="Mine", query="", team=people.team.slug)
    Membership.objects.filter(user=people.owner).update(role=Membership.Role.VIEWER)
    view = SavedView.objects.get()
    assert who.owner.post(f"/views/{view.pk}/rename", {"name": "Renamed"}).status_code == 403
    assert who.owner.post(f"/views/{view.pk}/delete").status_code == 302
