"""Embedded player and oEmbed."""

from __future__ import annotations

import html
import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from tests.webapp.fragments import contains
from tests.webapp.page_requests import Visitors
from tests.webapp.trajectories.shared_trajectory import PERSON, link, share, story, trajectory, who
from webapp.trajectories.models import ShareLink, Trajectory

__all__ = ["link", "story", "trajectory", "who"]


def test_only_the_embedded_player_may_be_framed(link: ShareLink, who: Visitors) -> None:
    response = who.anonymous.get(f"/embed/{link.token}")
    assert response.status_code == 200
    policy = response["Content-Security-Policy"]
    assert "frame-ancestors *" in policy
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    assert "X-Frame-Options" not in response
    for path in (f"/s/{link.token}", f"/s/{link.token}/picture.png", f"/s/{link.token}/export/json", "/oembed"):
        other = who.anonymous.get(path)
        assert "frame-ancestors 'none'" in other["Content-Security-Policy"]
        assert other["X-Frame-Options"] == "DENY"


def test_it_hides_the_team_and_links_to_the_shared_page(link: ShareLink, who: Visitors) -> None:
    page = html.unescape(who.anonymous.get(f"/embed/{link.token}?turn=2").content.decode())
    assert link.trajectory.turns.all()[0].event["thought"] in page
    assert contains(page, f'href="http://testserver/s/{link.token}?turn=2" target="_blank" rel="noopener"')
    for inside in ("/runs/", "/t/", link.trajectory.slug, link.trajectory.run.title):
        assert inside not in page, inside
    assert "noindex" in who.anonymous.get(f"/embed/{link.token}")["X-Robots-Tag"]


def test_options_are_read_from_the_query(trajectory: Trajectory, who: Visitors) -> None:
    found = share(who.owner, trajectory, here="on", turn="2")
    plain = who.anonymous.get(f"/embed/{found.token}").content.decode()
    assert 'data-start="?turn=2"' in plain
    assert "data-autoplay" not in plain
    chosen = who.anonymous.get(f"/embed/{found.token}?turn=1&action=2&autoplay=1&theme=dark").content.decode()
    assert 'data-start="?turn=1&amp;action=2"' in chosen
    assert "data-autoplay" in chosen
    assert 'data-theme="dark"' in chosen
    assert "alert" not in who.anonymous.get(f'/embed/{found.token}?theme="><script>alert').content.decode()


def test_a_closed_link_is_reported_without_a_reason(link: ShareLink, who: Visitors) -> None:
    ShareLink.objects.filter(pk=link.pk).update(revoked_at=timezone.now())
    response = who.anonymous.get(f"/embed/{link.token}")
    assert response.status_code == 404
    assert "frame-ancestors *" in response["Content-Security-Policy"]
    assert "X-Frame-Options" not in response
    assert response.content == who.anonymous.get("/embed/thereisnosuchtoken").content


def test_embedded_views_are_counted(link: ShareLink) -> None:
    reader = Client(headers={"user-agent": PERSON})
    reader.get(f"/embed/{link.token}")
    reader.get(f"/embed/{link.token}")
    link.refresh_from_db()
    assert link.views == 1
    cookie = Client(headers={"user-agent": PERSON}).get(f"/embed/{link.token}", secure=True).cookies["echoscope_seen"]
    assert cookie["samesite"] == "None"
    assert cookie["secure"]


def fetch_oembed(link: ShareLink, path: str = "/s/", query: str = "", **given: str) -> tuple[int, dict[str, object]]:
    response = Client().get("/oembed", {"url": f"http://testserver{path}{link.token}{query}"} | given)
    return response.status_code, response.json()


@pytest.mark.parametrize("path", ["/s/", "/embed/"])
def test_oembed_returns_the_embed_code_of_a_link(link: ShareLink, path: str) -> None:
    status, payload = fetch_oembed(link, path, "?turn=2&action=1&evil=%22")
    assert status == 200
    assert (payload["version"], payload["type"], payload["provider_name"]) == ("1.0", "rich", "Echoscope")
    code = str(payload["html"])
    assert code.startswith(f'<iframe src="http://testserver/embed/{link.token}?turn=2&amp;action=1"')
    assert f'width="{payload["width"]}" height="{payload["height"]}"' in code
    assert (payload["thumbnail_width"], payload["thumbnail_height"]) == (1200, 630)
    frame = re.search(r'src="([^"]+)"', code)
    assert frame is not None
    assert Client().get(html.unescape(frame[1])).status_code == 200


def test_oembed_respects_the_maximum_size(link: ShareLink) -> None:
    _, payload = fetch_oembed(link, maxwidth="400", maxheight="300")
    assert (payload["width"], payload["height"]) == (400, 300)
    assert "thumbnail_url" not in payload
    _, narrow = fetch_oembed(link, maxwidth="400")
    _, wide = fetch_oembed(link, maxwidth="4000")
    assert narrow["width"] == 400
    assert int(str(narrow["height"])) > int(str(wide["height"]))  # the thought stands below the board


@pytest.mark.parametrize(
    "given, status",
    [({"format": "xml"}, 501), ({"maxwidth": "wide"}, 400), ({"maxheight": "0"}, 400), ({"format": "json"}, 200)],
)
def test_oembed_errors_use_the_status_codes_of_the_protocol(
    link: ShareLink, given: dict[str, str], status: int
) -> None:
    answered, payload = fetch_oembed(link, **given)
    assert answered == status
    assert status == 200 or str(payload["error"]).endswith(".")


def test_oembed_accepts_only_open_links_of_this_site(trajectory: Trajectory, link: ShareLink, who: Visitors) -> None:
    expired = share(who.owner, trajectory, ends="7")
    ShareLink.objects.filter(pk=expired.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    addresses = [
        f"http://elsewhere.test/s/{link.token}",
        f"ftp://testserver/s/{link.token}",
        f"http://testserver/t/{trajectory.slug}",
        f"http://testserver/s/{expired.token}",
        "http://testserver/s/thereisnosuchtoken",
        "http://testserver/nothing/here",
        "http://[",
        "javascript:alert(1)",
    ]
    answers = [Client().get("/oembed", {"url": address}) for address in addresses]
    assert {answer.status_code for answer in answers} == {404}
    assert len({answer.content for answer in answers}) == 1
    assert Client().get("/oembed").status_code == 400
