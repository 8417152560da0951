"""Alert rules over the API: validated as on their page, with secrets shown once."""

from __future__ import annotations

import pytest
from pytest_django import Settings

from tests.webapp.api.api_clients import Callers, problem
from tests.webapp.conftest import People
from webapp.notifications.models import Delivery, Rule
from webapp.runs.models import Run

NEW = {"name": "Failures", "events": ["failed", "trapped"]}


def test_a_rule_is_created_changed_switched_off_and_deleted(callers: Callers, people: People) -> None:
    made = callers.owner.post("/api/alerts", NEW | {"scope": "tag", "scope_value": "baseline"})
    assert made.status_code == 201, made.content
    path = f"/api/alerts/{made.json()['slug']}"
    assert (made.json()["channel"], made.json()["secret"], made.json()["author"]) == ("inbox", None, "ada")
    changed = callers.owner.call("PATCH", path, {"events": ["reached"], "threshold": 0.8})
    assert changed.status_code == 200, changed.content
    assert (changed.json()["events"], changed.json()["threshold"]) == (["reached"], 0.8)
    assert (changed.json()["scope"], changed.json()["scope_value"]) == ("tag", "baseline"), "what is omitted stays"
    assert callers.owner.call("PATCH", path, {"scope": "all"}).json()["scope_value"] == ""
    assert callers.owner.call("PATCH", path, {"enabled": False}).json()["enabled"] is False
    assert [rule["name"] for rule in callers.viewer.get("/api/alerts").json()] == ["Failures"]
    assert callers.outsider.get("/api/alerts").json() == []
    assert callers.owner.call("DELETE", path).status_code == 204
    assert not Rule.objects.exists()


@pytest.mark.parametrize(
    "change, field, message",
    [
        ({"channel": "email"}, "addresses", "enter at least one address"),
        ({"channel": "email", "addresses": ["nobody"]}, "addresses", "nobody is not an e-mail address"),
        ({"scope": "environment"}, "scope_value", "choose an environment"),
        ({"scope": "run", "scope_value": "none"}, "scope_value", "there is no such run in this team"),
        ({"events": []}, "events", "at least 1 item"),
        ({"channel": "webhook", "url": "ftp://example.org"}, "url", "http"),
        ({"threshold": 80}, "threshold", "must be at most 1"),
    ],
)
def test_an_invalid_rule_is_refused_at_its_field(
    change: dict[str, object], field: str, message: str, callers: Callers, people: People
) -> None:
    refused = callers.owner.post("/api/alerts", NEW | change)
    assert refused.status_code == 422, refused.content
    assert message in problem(refused)["fields"][field]
    assert not Rule.objects.exists()


def test_the_secret_of_a_webhook_is_in_the_answer_that_makes_it_only(callers: Callers, people: People) -> None:
    made = callers.owner.post("/api/alerts", NEW | {"channel": "webhook", "url": "https://example.org/hook/abc"})
    assert made.status_code == 201, made.content
    rule = Rule.objects.get()
    assert made.json()["secret"] == rule.secret
    assert made.json()["target"] == "https://example.org/…"
    read = callers.owner.get(f"/api/alerts/{rule.slug}")
    assert read.json()["secret"] is None
    assert rule.secret.encode() not in read.content
    assert b"hook/abc" not in read.content


def test_a_secret_is_replaced_and_the_old_one_ended(callers: Callers, people: People) -> None:
    made = callers.owner.post("/api/alerts", NEW | {"channel": "webhook", "url": "https://example.org/hook/abc"}).json()
    path = f"/api/alerts/{made['slug']}"
    assert callers.viewer.post(f"{path}/secret").status_code == 403
    replaced = callers.owner.post(f"{path}/secret").json()
    assert replaced["secret"].startswith("whsec_")
    assert replaced["secret"] != made["secret"]
    assert replaced["former_secrets_until"] is not None
    assert callers.owner.get(path).json()["secret"] is None
    ended = callers.owner.call("DELETE", f"{path}/former-secrets")
    assert (ended.status_code, ended.json()["former_secrets_until"]) == (200, None)
    rule = Rule.objects.get()
    assert (rule.secret, rule.former_secrets) == (replaced["secret"], [])


def test_only_webhooks_have_a_secret_to_replace(callers: Callers, people: People) -> None:
    path = f"/api/alerts/{callers.owner.post('/api/alerts', NEW).json()['slug']}"
    for refused in (callers.owner.post(f"{path}/secret"), callers.owner.call("DELETE", f"{path}/former-secrets")):
        assert refused.status_code == 409
        assert "its channel is inbox" in problem(refused)["message"]


def test_a_test_is_queued_and_listed_until_todays_limit(callers: Callers, people: People, settings: Settings) -> None:
    path = f"/api/alerts/{callers.owner.post('/api/alerts', NEW).json()['slug']}"
    settings.ECHOSCOPE_MAX_TEST_ALERTS_PER_DAY = 1
    assert callers.owner.post(f"{path}/test").status_code == 201
    refused = callers.owner.post(f"{path}/test")
    assert (refused.status_code, problem(refused)["code"]) == (409, "quota")
    (listed,) = callers.viewer.get(f"{path}/deliveries").json()
    assert (listed["event"], listed["state"], listed["run"]) == ("test", "pending", None)


def test_deliveries_about_private_runs_of_others_are_not_listed(callers: Callers, people: People, run: Run) -> None:
    rule = Rule.objects.get(slug=callers.owner.post("/api/alerts", NEW).json()["slug"])
    Delivery.objects.create(rule=rule, run=run, event="failed", key="failed:1", payload='{"event": "failed"}')
    Run.objects.filter(pk=run.pk).update(visibility=Run.Visibility.PRIVATE)
    assert len(callers.owner.get(f"/api/alerts/{rule.slug}/deliveries").json()) == 1
    assert callers.viewer.get(f"/api/alerts/{rule.slug}/deliveries").json() == []
