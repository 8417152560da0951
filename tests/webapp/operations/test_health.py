"""Endpoints for load balancers and monitoring."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from django.db import connection
from django.test import Client
from pytest_django import Settings

from tests.webapp.conftest import People
from tests.webapp.page_requests import Visitors, who
from webapp.operations.logs import configuration
from webapp.runs.models import Run
from webapp.settings import ROOT

__all__ = ["who"]


@pytest.mark.django_db
def test_a_process_with_database_and_redis_is_ready() -> None:
    answer = Client().get("/readyz")
    assert answer.status_code == 200
    checks = answer.json()["checks"]
    assert all(check["ok"] for check in checks.values()), checks
    assert set(checks) == {"database", "redis", "disk"}


@pytest.mark.django_db
def test_without_redis_it_serves_and_reports_what_is_missing(settings: Settings) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    answer = Client().get("/readyz")
    assert answer.status_code == 200
    assert answer.json()["checks"]["redis"] == {"ok": False, "message": answer.json()["checks"]["redis"]["message"]}
    assert "live pages poll" in answer.json()["checks"]["redis"]["message"]


@pytest.mark.django_db
def test_a_database_of_an_older_version_is_not_ready() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM django_migrations WHERE app = 'trajectories' AND (name >= '0003' OR name = '0001_squashed')"
        )
    answer = Client().get("/readyz")
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
def test_a_request_keeps_its_proxy_id_or_gets_a_new_one() -> None:
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
