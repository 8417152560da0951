"""Reports about the content security policy, from browsers and from attackers."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import REGISTRY

from webapp.core.middleware.csp import POLICY
from webapp.operations import csp_reports
from webapp.operations.csp_reports import DIRECTIVES, violations

PAGE = "https://echoscope.example.org/s/a-secret-of-a-share-link"
FIREFOX = {
    "csp-report": {
        "document-uri": PAGE,
        "violated-directive": "script-src-elem",
        "blocked-uri": "https://evil.example/x.js?token=1",
    }
}
CHROME = [
    {
        "type": "csp-violation",
        "body": {"documentURL": PAGE, "effectiveDirective": "script-src-elem", "blockedURL": "inline"},
    }
]
JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda values: (
        st.lists(values)
        | st.dictionaries(st.sampled_from(["csp-report", "body", "blocked-uri", "documentURL"]), values)
    ),
)


@pytest.fixture(autouse=True)
def _no_reports_before(monkeypatch: pytest.MonkeyPatch) -> None:
    cache.clear()
    monkeypatch.setattr(csp_reports, "PER_SITE", 1_000_000)


def send(body: Any, address: str = "192.0.2.1") -> int:
    content = body if isinstance(body, bytes) else json.dumps(body)
    client = Client(enforce_csrf_checks=True, REMOTE_ADDR=address)
    return client.post("/csp-report", content, content_type="application/reports+json").status_code


def counted(directive: str) -> float:
    return REGISTRY.get_sample_value("echoscope_csp_reports_total", {"directive": directive}) or 0.0


@pytest.mark.parametrize(
    ("report", "blocked", "address"),
    [(FIREFOX, "https://evil.example", "192.0.2.11"), (CHROME, "inline", "192.0.2.12")],
)
def test_a_violation_is_counted_and_logged_once(
    report: Any, blocked: str, address: str, caplog: pytest.LogCaptureFixture
) -> None:
    before = counted("script-src-elem")
    with caplog.at_level(logging.WARNING):
        assert [send(report, address) for _ in range(3)] == [204, 204, 204]
    assert counted("script-src-elem") == before + 3
    lines = [record.getMessage() for record in caplog.records if record.name == csp_reports.__name__]
    assert lines == [f"The content security policy blocked {blocked} (script-src-elem) on the page shared."]
    assert "secret" not in caplog.text


def test_a_visitor_cannot_fill_the_log() -> None:
    answers = [send(FIREFOX, "192.0.2.21") for _ in range(csp_reports.PER_VISITOR + 5)]
    assert answers == [204] * csp_reports.PER_VISITOR + [429] * 5
    assert send(FIREFOX, "192.0.2.22") == 204, "another visitor"
    assert send(b"x" * 20_000, "192.0.2.23") == 413
    assert Client().post("/csp-report", {"field": "a form"}).status_code == 415


def test_browsers_are_told_where_to_send_them() -> None:
    answer = Client().get("/login")
    assert "report-uri /csp-report; report-to csp" in POLICY
    assert answer.headers["Reporting-Endpoints"] == 'csp="/csp-report"'


@given(JSON | st.binary())
def test_anything_may_be_sent(sent: Any) -> None:
    body = sent if isinstance(sent, bytes) else json.dumps(sent).encode()
    for directive, blocked, page in violations(body):
        assert directive in DIRECTIVES | {"other"}
        assert blocked.isprintable()
        assert len(blocked) <= 100
        assert page == "unknown" or " " not in page


def test_deeply_nested_json_is_ignored() -> None:
    assert list(violations(b"[" * 100_000)) == []
