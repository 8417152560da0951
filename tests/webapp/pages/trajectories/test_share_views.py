"""Share links: creation and revocation, visible data, expiry, view counts."""

from __future__ import annotations

import html
import re
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from bench.lib.site.page_weight import WITHOUT_FONTS, by_kind, first_visit
from tests.webapp.fragments import contains
from tests.webapp.page_requests import Visitors, assert_private
from tests.webapp.trajectories.shared_trajectory import PERSON, link, share, story, trajectory, who
from trainer.config.run import RunConfig
from webapp.runs.models import Run
from webapp.trajectories.actions import do_share_trajectory
from webapp.trajectories.models import ShareLink, Trajectory

__all__ = ["link", "story", "trajectory", "who"]

MOST_BYTES = 120_000


def test_a_link_is_public_and_noindex(trajectory: Trajectory, link: ShareLink, who: Visitors) -> None:
    for client in (who.anonymous, who.outsider, who.viewer, who.owner):
        response = client.get(f"/s/{link.token}?turn=1")
        page = response.content.decode()
        assert response.status_code == 200
        assert contains(page, '<meta name="robots" content="noindex, nofollow">')
        assert "noindex" in response["X-Robots-Tag"]
        assert response["Referrer-Policy"] == "no-referrer"
        assert trajectory.turns.all()[0].event["thought"] in html.unescape(page)


def test_indexing_is_opt_in(trajectory: Trajectory, who: Visitors) -> None:
    chosen = share(who.owner, trajectory, ends="never", indexable="on")
    for path in (f"/s/{chosen.token}", f"/s/{chosen.token}/picture.png"):
        response = who.anonymous.get(path)
        assert "X-Robots-Tag" not in response
        assert b'name="robots"' not in response.content


def test_a_shared_page_has_no_links_into_the_team(run: Run, link: ShareLink, who: Visitors) -> None:
    page = who.anonymous.get(f"/s/{link.token}").content.decode()
    for inside in ("/runs/", "/t/", run.title, run.slug, link.trajectory.slug, run.team.name, "ada"):
        assert inside not in page, inside


def test_a_revoked_link_shows_nothing(trajectory: Trajectory, link: ShareLink, who: Visitors) -> None:
    page = who.owner.get(f"/t/{trajectory.slug}").content.decode()
    assert f"/s/{link.token}" in page
    assert "You can undo this for 10 minutes." in page  # confirmed first
    who.owner.post(f"/t/{trajectory.slug}/shares/{link.token}/revoke")
    for client in (who.anonymous, who.owner):
        assert client.get(f"/s/{link.token}").status_code == 404
    assert f"/s/{link.token}" not in who.owner.get(f"/t/{trajectory.slug}").content.decode()


def test_revoked_expired_and_unknown_links_are_indistinguishable(
    trajectory: Trajectory, link: ShareLink, who: Visitors
) -> None:
    other = share(who.owner, trajectory, ends="7")
    ShareLink.objects.filter(pk=other.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    who.owner.post(f"/t/{trajectory.slug}/shares/{link.token}/revoke")
    for rest in ("", "/picture.png", "/export/json", "/export/gif"):
        answers = [who.anonymous.get(f"/s/{token}{rest}") for token in (link.token, other.token, "thereisnosuchtoken")]
        assert {answer.status_code for answer in answers} == {404}
        assert len({answer.content for answer in answers}) == 1
        assert "may have been revoked" in answers[0].content.decode()


@pytest.mark.parametrize("days", [1, 7, 30])
def test_a_link_expires_after_the_selected_days(trajectory: Trajectory, who: Visitors, days: int) -> None:
    found = share(who.owner, trajectory, ends=str(days))
    assert found.expires_at is not None
    left = found.expires_at - timezone.now()
    assert timedelta(days=days) - timedelta(minutes=1) < left <= timedelta(days=days, minutes=1)
    assert "This link works until" in who.anonymous.get(f"/s/{found.token}").content.decode()


def test_an_expiry_date_is_inclusive(trajectory: Trajectory, who: Visitors) -> None:
    found = share(who.owner, trajectory, ends="date", until="2199-12-31")
    assert found.expires_at == datetime(2200, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "form, words",
    [
        ({"ends": "date", "until": "2020-01-01"}, "must be today or later"),
        ({"ends": "date"}, "Enter the last day"),
        ({"ends": "date", "until": "soon"}, "valid date"),
        ({"ends": "sometimes"}, "No link was created"),
        ({"turn": "-4", "here": "on"}, "No link was created"),
    ],
)
def test_invalid_options_create_no_link_and_explain_why(
    trajectory: Trajectory, who: Visitors, form: dict[str, str], words: str
) -> None:
    page = who.owner.post(f"/t/{trajectory.slug}/share", form, follow=True).content.decode()
    assert words in html.unescape(page)
    assert not ShareLink.objects.exists()


def test_a_link_opens_at_its_position_unless_the_url_has_one(trajectory: Trajectory, who: Visitors) -> None:
    found = share(who.owner, trajectory, ends="never", here="on", turn="2", action="1")
    assert (found.turn, found.action) == (1, 0)
    assert 'data-start="?turn=2&amp;action=1"' in who.anonymous.get(f"/s/{found.token}").content.decode()
    assert 'data-start="?turn=1"' in who.anonymous.get(f"/s/{found.token}?turn=1").content.decode()
    assert "opens at turn 2, action 1" in who.owner.get(f"/t/{trajectory.slug}").content.decode()
    plain = share(who.owner, trajectory, ends="never", turn="2", action="1")
    assert (plain.turn, plain.action) == (None, None)
    assert 'data-start=""' in who.anonymous.get(f"/s/{plain.token}").content.decode()


def test_identical_options_reuse_the_link(trajectory: Trajectory, who: Visitors) -> None:
    first = share(who.owner, trajectory, ends="7")
    ShareLink.objects.filter(pk=first.pk).update(expires_at=first.expires_at)
    assert share(who.owner, trajectory, ends="never") != first
    assert share(who.owner, trajectory, ends="never") == ShareLink.objects.latest("pk")
    assert ShareLink.objects.filter(expires_at=None).count() == 1
    assert share(who.owner, trajectory, ends="never", indexable="on").indexable
    assert ShareLink.objects.filter(expires_at=None).count() == 2


def test_viewers_see_links_without_controls(trajectory: Trajectory, link: ShareLink, who: Visitors) -> None:
    page = who.viewer.get(f"/t/{trajectory.slug}").content.decode()
    assert f"/s/{link.token}" in page  # a viewer sees public links
    assert "data-share-form" not in page
    assert not contains(page, ">Revoke</button>")


def test_links_of_a_public_run_are_listed_for_its_team_only(
    run: Run, trajectory: Trajectory, link: ShareLink, who: Visitors
) -> None:
    Run.objects.filter(pk=run.pk).update(visibility=Run.Visibility.LINK)
    for client in (who.outsider, who.anonymous):
        page = client.get(f"/t/{trajectory.slug}").content.decode()
        assert link.token not in page
        assert "data-share-form" not in page
        assert f'href="/t/{trajectory.slug}/export/json"' in page


def test_a_link_is_revoked_only_through_its_own_trajectory(
    trajectory: Trajectory, link: ShareLink, who: Visitors
) -> None:
    other = Trajectory.objects.exclude(pk=trajectory.pk).first()
    assert other is not None
    assert who.owner.post(f"/t/{other.slug}/shares/{link.token}/revoke").status_code == 404
    assert who.anonymous.get(f"/s/{link.token}").status_code == 200


def visitor() -> Client:
    return Client(headers={"user-agent": PERSON})


def views(link: ShareLink) -> int:
    link.refresh_from_db()
    return link.views


def test_a_visitor_counts_once_a_day(link: ShareLink, who: Visitors) -> None:
    assert views(link) == 0
    reader = visitor()
    for _ in range(3):
        response = reader.get(f"/s/{link.token}")
    assert "Set-Cookie" not in response.headers
    assert views(link) == 1
    assert link.last_viewed_at is not None
    visitor().get(f"/s/{link.token}")
    assert views(link) == 2
    assert contains(who.viewer.get(f"/t/{link.trajectory.slug}").content.decode(), "2 views")


def test_the_visitor_cookie_is_anonymous_and_scoped_to_the_link(link: ShareLink) -> None:
    cookie = visitor().get(f"/s/{link.token}").cookies["echoscope_seen"]
    assert cookie.value == "1"
    assert cookie["path"] == f"/s/{link.token}"
    assert cookie["max-age"] == 86400
    assert cookie["httponly"]


@pytest.mark.parametrize(
    "headers",
    [
        {"user-agent": "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"},
        {"user-agent": "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)"},
        {"user-agent": "facebookexternalhit/1.1"},
        {"user-agent": "curl/8.5.0"},
        {"user-agent": ""},
        {"user-agent": PERSON, "sec-purpose": "prefetch;prerender"},
        {"user-agent": PERSON, "x-moz": "prefetch"},
    ],
)
def test_robots_and_prefetches_are_not_views(link: ShareLink, headers: dict[str, str]) -> None:
    response = Client(headers=headers).get(f"/s/{link.token}")
    assert response.status_code == 200
    assert "echoscope_seen" not in response.cookies
    assert views(link) == 0


def test_head_requests_images_downloads_and_oembed_are_not_views(link: ShareLink) -> None:
    reader = visitor()
    assert reader.head(f"/s/{link.token}").status_code == 200
    reader.get(f"/s/{link.token}/picture.png")
    reader.get(f"/s/{link.token}/export/txt")
    reader.get("/oembed", {"url": f"http://testserver/s/{link.token}"})
    assert views(link) == 0


def test_a_view_by_the_author_is_not_counted(link: ShareLink, who: Visitors) -> None:
    who.owner.get(f"/s/{link.token}", headers={"user-agent": PERSON})
    assert views(link) == 0
    who.viewer.get(f"/s/{link.token}", headers={"user-agent": PERSON})
    assert views(link) == 1


@pytest.mark.usefixtures("own_files")
def test_a_link_survives_its_replaced_attempt(run: Run, link: ShareLink, who: Visitors) -> None:
    """The run resumes from a checkpoint and replays the iteration: the shared trajectory stays."""
    from tests.webapp import recorded_journal
    from trainer.journal.writer import Journal
    from webapp.ingest.tailer import JournalTailer

    config = RunConfig.model_validate(run.config)
    log = Journal(run.folder)
    log.write(recorded_journal.started(config, attempt=2, from_iteration=0))
    log.write(*recorded_journal.iteration(config, 1, skill=0.9))
    log.close()
    run.refresh_from_db()
    JournalTailer(run).drain()
    link.trajectory.refresh_from_db()
    assert link.trajectory.superseded
    page = who.anonymous.get(f"/s/{link.token}")
    assert page.status_code == 200
    assert "checkpoint" not in page.content.decode()  # the outcome of the run is for the team only
    assert who.anonymous.get(f"/s/{link.token}/picture.png").status_code == 200


def test_previews_have_title_image_and_oembed(link: ShareLink, who: Visitors) -> None:
    comment = "Turn 2: Down locked the box in a corner."
    Trajectory.objects.filter(pk=link.trajectory_id).update(commentary=comment)
    page = html.unescape(who.anonymous.get(f"/s/{link.token}?turn=2&action=1").content.decode())
    meta = dict(re.findall(r'<meta (?:property|name)="((?:og|twitter):[^"]+)" content="([^"]*)"', page))
    assert meta["og:title"].startswith("A language model plays Sokoban (")
    assert meta["og:url"] == f"http://testserver/s/{link.token}?turn=2&action=1"
    assert meta["og:image"].startswith(f"http://testserver/s/{link.token}/picture.png?turn=2&action=1&v=")
    assert (meta["og:image:width"], meta["og:image:height"]) == ("1200", "630")
    assert meta["og:image:alt"] == meta["twitter:image:alt"]
    assert meta["og:image:alt"] == f"The board at turn 2 next to the thought of that turn. {comment}"
    assert meta["og:description"] == comment
    assert meta["twitter:card"] == "summary_large_image"
    assert who.anonymous.get(meta["og:image"]).status_code == 200
    found = re.search(r'<link rel="alternate" type="application/json\+oembed" href="([^"]+)"', page)
    assert found is not None
    assert who.anonymous.get(found[1]).json()["type"] == "rich"


def test_the_page_is_light_enough_for_a_phone(link: ShareLink, who: Visitors) -> None:
    parts = first_visit(who.anonymous.get(f"/s/{link.token}").content)
    plain, packed = by_kind(parts)[WITHOUT_FONTS]
    assert packed <= MOST_BYTES, f"{packed} bytes compressed, {plain} plain: {by_kind(parts)}"


def test_a_shared_page_takes_few_queries(
    link: ShareLink, who: Visitors, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_max_num_queries(3):
        who.anonymous.get(f"/s/{link.token}")


def test_the_query_count_is_constant_in_the_number_of_links(
    trajectory: Trajectory, link: ShareLink, who: Visitors
) -> None:
    assert link.author is not None
    who.owner.get(f"/t/{trajectory.slug}")
    with CaptureQueriesContext(connection) as few:
        who.owner.get(f"/t/{trajectory.slug}")
    for turn in range(4):
        do_share_trajectory(trajectory, link.author, turn=turn)
    with CaptureQueriesContext(connection) as many:
        who.owner.get(f"/t/{trajectory.slug}")
    assert len(many) == len(few)


def test_other_runs_are_untouched_by_a_share(run: Run, link: ShareLink, who: Visitors) -> None:
    hidden = Trajectory.objects.filter(run=run).exclude(pk=link.trajectory_id).first()
    assert hidden is not None
    assert who.anonymous.get(f"/s/{hidden.slug}").status_code == 404
    assert_private(f"/t/{hidden.slug}", who)
