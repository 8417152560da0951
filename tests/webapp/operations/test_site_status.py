"""The line about programs that are away: on the pages of signed-in people, as long as it is true."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.conf import settings as site
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from tests.webapp.conftest import People
from tests.webapp.page_requests import Visitors, who
from webapp.core import limits_cache
from webapp.operations import site_status
from webapp.services.lock import Lock

__all__ = ["who"]

AWAY = "Worker has not answered since 12:00:00 UTC: runs wait, and go on when it is back."
NOON = 1_795_867_200.0


@pytest.fixture
def home(people: People, settings: Settings, tmp_path: Path) -> Path:
    settings.ECHOSCOPE_DATA_DIR = tmp_path
    return tmp_path


def report(home: Path, program: str, since: float, until: float | None) -> None:
    """What the supervisor of `make up` notes."""
    assert Lock(home).note(programs={}, outages=[{"program": program, "since": since, "until": until}]) is None


def test_signed_in_people_see_what_is_away_and_since_when(home: Path, who: Visitors) -> None:
    assert "site-status" not in who.viewer.get("/account").content.decode()
    report(home, "Worker", NOON, None)
    page = who.viewer.get("/account").content.decode()
    assert AWAY in page
    assert "js/pages/site.js" in page, "which keeps the line up to date"
    assert "Worker has not" not in who.anonymous.get("/login").content.decode()


def test_the_line_says_what_was_restarted_and_goes_away(home: Path, who: Visitors) -> None:
    now = timezone.now().timestamp()
    report(home, "Redis", now - 40, now - 5)
    answer = who.viewer.get("/status-line")
    assert "Redis was away from" in answer.content.decode()
    assert "It was restarted." in answer.content.decode()
    report(home, "Redis", now - 900, now - site_status.SHOWN_AFTER - 1)
    assert who.viewer.get("/status-line").status_code == 204
    assert "site-status" not in who.viewer.get("/account").content.decode()


def test_a_redis_that_is_away_is_noticed_without_a_supervisor(
    home: Path, who: Visitors, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = "redis://127.0.0.1:9/0"
    assert limits_cache.shared(away, lambda client: client.ping()) is None
    monkeypatch.setattr(site, "REDIS_URL", away)
    assert "Redis has not answered since" in who.viewer.get("/status-line").content.decode()
    limits_cache._paused_until.pop(away)
    monkeypatch.setitem(limits_cache._clients, away, _Answering())
    limits_cache.shared(away, lambda client: client.ping())
    assert who.viewer.get("/status-line").status_code == 204


class _Answering:
    def ping(self) -> bool:
        return True


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"outages": [{"program": "Worker"}]}', '{"outages": 3}', '{"pid": 1}']
)
def test_a_note_that_cannot_be_read_shows_nothing(home: Path, text: str, who: Visitors) -> None:
    (home / site_status.FILE).write_text(text)
    assert who.viewer.get("/account").status_code == 200
    assert who.viewer.get("/status-line").status_code == 204


def test_the_note_is_read_only_when_it_has_changed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report(home, "Worker", NOON, None)
    read: list[str] = []
    loads = json.loads
    monkeypatch.setattr(site_status.json, "loads", lambda text: (read.append(text), loads(text))[1])
    for _ in range(5):
        assert site_status.status_lines(timezone.now()) == [AWAY]
    assert len(read) == 1


def test_the_line_is_for_signed_in_people_only(home: Path) -> None:
    report(home, "Worker", NOON, None)
    assert Client().get("/status-line")["Location"].startswith("/login")
