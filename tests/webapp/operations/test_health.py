"""Endpoints for load balancers and monitoring."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from django.test import Client
from pytest_django import Settings

from tests.webapp.conftest import People
from tests.webapp.page_requests import Visitors, who
from webapp.operations import health
from webapp.operations.logs import configuration
from webapp.runs.models import Run
from webapp.settings import ROOT

__all__ = ["who"]


@pytest.fixture
def monitor(db: None, settings: Settings) -> Client:
    """A client with the token for monitoring."""
    settings.ECHOSCOPE_METRICS_TOKEN = "a token for monitoring"
    return Client(headers={"Authorization": "Bearer a token for monitoring"})


def test_a_process_with_database_and_redis_is_ready(monitor: Client) -> None:
    answer = monitor.get("/readyz")
    assert answer.status_code == 200
    checks = answer.json()["checks"]
    assert all(check["ok"] for check in checks.values()), checks
    assert set(checks) == {"database", "redis", "disk", "backup"}
    assert "GB free" in checks["disk"]["message"]


@pytest.mark.django_db
def test_details_are_for_holders_of_the_token(settings: Settings) -> None:
    for token in ("", "Bearer wrong", "Bearer "):
        answer = Client().get("/readyz", headers={"Authorization": token} if token else {})
        assert answer.json() == {
            "ready": True,
            "checks": {name: {"ok": True} for name in ("database", "redis", "disk", "backup")},
        }


@pytest.mark.django_db
def test_readiness_uses_no_connection_of_the_requests(django_assert_num_queries) -> None:  # type: ignore[no-untyped-def]
    with django_assert_num_queries(0):
        assert Client().get("/readyz").status_code == 200


@pytest.mark.django_db
def test_checks_of_the_database_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "DATABASE_TIMEOUT", 0.01)
    with health._one_check:
        assert Client().get("/readyz").status_code == 503
    monkeypatch.undo()
    assert Client().get("/readyz").status_code == 200


def test_without_redis_it_serves_and_reports_what_is_missing(monitor: Client, settings: Settings) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    answer = monitor.get("/readyz")
    assert answer.status_code == 200
    assert answer.json()["checks"]["redis"] == {"ok": False, "message": answer.json()["checks"]["redis"]["message"]}
    assert "live pages poll" in answer.json()["checks"]["redis"]["message"]


def test_a_database_of_an_older_version_is_not_ready(monitor: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    newer = health._migrations() | {("trajectories", "9999_of_a_newer_version")}
    monkeypatch.setattr(health, "_migrations", lambda: newer)
    answer = monitor.get("/readyz")
    assert answer.status_code == 503
    assert "manage.py prepare" in answer.json()["checks"]["database"]["message"]


@pytest.mark.django_db
def test_the_health_check_makes_no_query(django_assert_num_queries) -> None:  # type: ignore[no-untyped-def]
    with django_assert_num_queries(0):
        assert Client().get("/healthz").content == b"ok"


def test_metrics_are_for_staff_and_token_holders(who: Visitors, people: People, run: Run, settings: Settings) -> None:
    for visitor in (who.owner, who.viewer, who.outsider, who.anonymous):
        assert visitor.get("/metrics").status_code == 404
    settings.ECHOSCOPE_METRICS_TOKEN = "a token for monitoring"
    assert who.anonymous.get("/metrics", HTTP_AUTHORIZATION="Bearer wrong").status_code == 404
    assert who.anonymous.get("/metrics", HTTP_AUTHORIZATION="Bearer ").status_code == 404
    text = who.anonymous.get("/metrics", HTTP_AUTHORIZATION="Bearer a token for monitoring").content.decode()
    assert 'echoscope_runs{state="queued"} 1.0' in text
    assert 'echoscope_queue_length{queue="training"} 1.0' in text
    assert "echoscope_http_request_seconds_bucket" in text
    people.owner.is_staff = True
    people.owner.save()
    assert who.owner.get("/metrics").status_code == 200


@pytest.mark.django_db
def test_a_request_has_an_id_of_its_own(settings: Settings) -> None:
    settings.ECHOSCOPE_TRUST_REQUEST_ID = False
    given = Client().get("/healthz", headers={"X-Request-ID": "abc-12345"})["X-Request-ID"]
    assert len(given) == 16


@pytest.mark.django_db
def test_behind_a_proxy_a_request_keeps_its_id_or_gets_a_new_one(settings: Settings) -> None:
    settings.ECHOSCOPE_TRUST_REQUEST_ID = True
    assert Client().get("/healthz", headers={"X-Request-ID": "abc-12345"})["X-Request-ID"] == "abc-12345"
    own = Client().get("/healthz", headers={"X-Request-ID": "no good\r\n"})["X-Request-ID"]
    assert len(own) == 16
    assert own != Client().get("/healthz")["X-Request-ID"]


def test_log_lines_are_json_objects_if_configured() -> None:
    script = "import logging, webapp.settings as s; import logging.config as c; c.dictConfig(s.LOGGING);"
    script += "logging.getLogger('webapp.runs').warning('Run %s lost its worker', 'abc', extra={'run': 'abc'})"
    environment = {**os.environ, "ECHOSCOPE_LOG_FORMAT": "json", "ECHOSCOPE_SECRET_KEY": "x"}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    line = json.loads(done.stderr.strip().splitlines()[-1])
    assert line["message"] == "Run abc lost its worker"
    assert (line["level"], line["logger"], line["run"], line["request_id"]) == ("WARNING", "webapp.runs", "abc", "")


def test_an_unknown_log_format_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="ECHOSCOPE_LOG_FORMAT must be line or json"):
        configuration("yaml", "INFO")
