"""Inbox page: reading, marking, settings, paging; and “Alert me” on the page of a run."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from tests.webapp.conftest import People
from tests.webapp.page_requests import Visitors, who
from webapp.notifications.inbox import unread_count
from webapp.notifications.models import Follow, Notification, NotificationPreference
from webapp.pages.personal.inbox_views import ENTRIES_PER_PAGE
from webapp.runs.models import Run

pytestmark = pytest.mark.django_db
__all__ = ["who"]


def add(people: People, run: Run | None, number: int = 0, **fields: object) -> Notification:
    given = {"title": "Run finished", "message": "All <b> done.", "path": f"/runs/{run.slug}/" if run else "/alerts"}
    return Notification.objects.create(
        user=people.viewer,
        run=run,
        kind="finished",
        key=f"key {number}",
        created_at=timezone.now() - timedelta(seconds=number),
        **given | fields,
    )


def test_opening_an_entry_marks_it_as_read_for_its_user_only(people: People, run: Run, who: Visitors) -> None:
    first, _ = add(people, run), add(people, run, 1)
    page = who.viewer.get("/inbox").content.decode()
    assert "All &lt;b&gt; done." in page
    assert '<b class="unread">2</b>' in page
    assert "All &lt;b&gt;" not in who.owner.get("/inbox").content.decode()
    assert who.owner.get(f"/inbox/{first.slug}").status_code == 404
    assert who.viewer.get(f"/inbox/{first.slug}").headers["Location"] == f"/runs/{run.slug}/"
    assert unread_count(people.viewer) == 1
    assert who.viewer.get("/inbox?show=unread").content.decode().count('data-kind="finished"') == 1
    who.viewer.post("/inbox/read")
    assert unread_count(people.viewer) == 0


def test_an_entry_of_a_run_that_became_private_is_gone(people: People, run: Run, who: Visitors) -> None:
    entry = add(people, run)
    Run.objects.filter(pk=run.pk).update(visibility=Run.Visibility.PRIVATE)
    assert who.viewer.get(f"/inbox/{entry.slug}").status_code == 404
    assert "Run finished" not in who.viewer.get("/inbox").content.decode()


def test_earlier_entries_are_on_the_next_page(people: People, run: Run, who: Visitors) -> None:
    for number in range(ENTRIES_PER_PAGE + 3):
        add(people, run, number)
    page = who.viewer.get("/inbox").content.decode()
    assert page.count('data-kind="finished"') == ENTRIES_PER_PAGE
    before = page.partition("?before=")[2].partition('"')[0]
    assert who.viewer.get(f"/inbox?before={before}").content.decode().count('data-kind="finished"') == 3
    for wrong in ("x", "-1", "9" * 17, "9" * 40):
        assert who.viewer.get(f"/inbox?before={wrong}").status_code == 200


def test_settings_are_saved_and_shown(people: People, who: Visitors) -> None:
    who.viewer.post("/inbox/settings", {"comments": "1"})
    saved = NotificationPreference.objects.get(user=people.viewer)
    assert (saved.own_runs, saved.comments, saved.team_alerts) == (False, True, False)
    assert who.viewer.get("/inbox").content.decode().count(" checked") == 1


def test_alert_me_follows_the_run_and_stops(people: People, run: Run, who: Visitors) -> None:
    assert "Alert me" in who.viewer.get(f"/runs/{run.slug}/").content.decode()
    assert "Alerts on" in who.owner.get(f"/runs/{run.slug}/").content.decode(), "its author follows from the beginning"
    answer = who.viewer.post(f"/runs/{run.slug}/follow", {"on": "1"}, headers={"X-Fragment": "1"})
    assert "Alerts on" in answer.content.decode()
    assert "channel=email" not in answer.content.decode(), "viewers cannot create rules"
    assert run.title in who.viewer.get("/inbox").content.decode()
    assert who.viewer.post(f"/runs/{run.slug}/follow", {"on": "0"}).headers["Location"] == f"/runs/{run.slug}/"
    assert not Follow.objects.get(user=people.viewer).on


def test_outsiders_cannot_follow_even_a_public_run(people: People, run: Run, who: Visitors) -> None:
    Run.objects.filter(pk=run.pk).update(visibility=Run.Visibility.LINK)
    assert who.outsider.post(f"/runs/{run.slug}/follow", {"on": "1"}).status_code == 404
    assert "data-alert-me" not in who.outsider.get(f"/runs/{run.slug}/").content.decode()
    assert "data-alert-me" not in who.anonymous.get(f"/runs/{run.slug}/").content.decode()


def test_the_alert_form_is_filled_in_for_a_run(people: People, run: Run, who: Visitors) -> None:
    page = who.owner.get(f"/alerts/new?run={run.slug}&channel=webhook").content.decode()
    assert f'value="{run.slug}"' in page
    assert '<option value="webhook" selected>' in page
    assert '<option value="run" selected>' in page
    settings = {"name": "One", "events": ["failed"], "scope": "run", "channel": "inbox"}
    assert who.owner.post("/alerts/new", settings | {"run": run.slug}).status_code == 302
    wrong = who.owner.post("/alerts/new", settings | {"run": "nosuchrun"}).content.decode()
    assert "There is no such run in this team." in wrong
