"""Requests a minute by a token and by its team."""

from __future__ import annotations

import pytest
from django.test import Client
from pytest_django import Settings

from tests.webapp.api.api_clients import Callers, callers, problem, program
from tests.webapp.conftest import People
from webapp.runs.models import Run

__all__ = ["callers"]
pytestmark = pytest.mark.django_db


def test_responses_say_how_many_requests_are_left(callers: Callers, settings: Settings) -> None:
    settings.ECHOSCOPE_MAX_REQUESTS_PER_MINUTE_PER_TOKEN = 3
    answer = callers.owner.get("/api/me")
    shown = {name: answer.headers[f"RateLimit-{name}"] for name in ("Limit", "Remaining", "Reset", "Policy")}
    assert shown == {"Limit": "3", "Remaining": "2", "Reset": "20", "Policy": "3;w=60"}
    assert "Retry-After" not in answer.headers


def test_beyond_the_limit_nothing_is_done(callers: Callers, run: Run, settings: Settings) -> None:
    settings.ECHOSCOPE_MAX_REQUESTS_PER_MINUTE_PER_TOKEN = 2
    for _ in range(2):
        assert callers.owner.get("/api/runs").status_code == 200
    answer = callers.owner.call("PATCH", f"/api/runs/{run.slug}", {"title": "Renamed"})
    assert answer.status_code == 429
    assert 0 < int(answer.headers["Retry-After"]) <= 30
    assert problem(answer)["code"] == "rate_limited"
    assert "this token may send 2 a minute" in problem(answer)["message"]
    assert Run.objects.get(pk=run.pk).title == "Trial"
    assert callers.reader.get("/api/runs").status_code == 200, "another token of the same person"


def test_the_tokens_of_a_team_share_a_limit(callers: Callers, people: People, settings: Settings) -> None:
    settings.ECHOSCOPE_MAX_REQUESTS_PER_MINUTE_PER_TEAM = 4
    answers = [program(people.team, people.owner).get("/api/me") for _ in range(6)]
    assert [answer.status_code for answer in answers] == [200] * 4 + [429] * 2
    assert "all tokens of your team together may send 4 a minute" in problem(answers[-1])["message"]
    assert callers.outsider.get("/api/me").status_code == 200, "another team"


def test_a_limit_of_zero_is_none(callers: Callers, settings: Settings) -> None:
    settings.ECHOSCOPE_MAX_REQUESTS_PER_MINUTE_PER_TOKEN = settings.ECHOSCOPE_MAX_REQUESTS_PER_MINUTE_PER_TEAM = 0
    assert "RateLimit-Limit" not in callers.owner.get("/api/me").headers


def test_wrong_tokens_and_browsers_use_up_no_limit(callers: Callers, people: People, settings: Settings) -> None:
    settings.ECHOSCOPE_MAX_REQUESTS_PER_MINUTE_PER_TOKEN = 1
    browser = Client()
    browser.force_login(people.owner)
    for _ in range(3):
        assert browser.get("/api/me").status_code == 200
        assert callers.anonymous.get("/api/me").status_code == 401
    assert callers.owner.get("/api/me").status_code == 200
