"""Pages of alert rules: permissions, form validation, secrets shown once."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries, Settings

from tests.webapp.fragments import contains
from tests.webapp.notifications.conftest import Make, raise_alarm
from tests.webapp.notifications.receiver import Receiver
from tests.webapp.page_requests import Visitors, who
from webapp.notifications.dispatch import dispatch
from webapp.notifications.models import Delivery, Rule
from webapp.notifications.outbox import deliver_due
from webapp.notifications.rule_actions import do_test_rule
from webapp.runs.models import Run

pytestmark = pytest.mark.django_db
__all__ = ["who"]
HOOK = "https://hooks.example.org/services/T000/B000/very-secret-path"

ANSWERS = {
    "name": "Collapse",
    "events": ["watch", "reached"],
    "threshold": "62.5",
    "suite": "",
    "queued_minutes": "30",
    "stalled_minutes": "45",
    "scope": "environment",
    "environment": "Sokoban",
    "tag": "",
    "channel": "webhook",
    "addresses": "",
    "url": HOOK,
}


def text_of(client: Client, address: str) -> str:
    return html.unescape(client.get(address).content.decode())


def test_a_rule_is_created_from_the_form(who: Visitors) -> None:
    answer = who.owner.post("/alerts/new", ANSWERS)
    rule = Rule.objects.get()
    assert answer.headers["Location"] == f"/alerts/{rule.slug}"
    assert (rule.events, rule.threshold, rule.stalled_minutes) == (["watch", "reached"], 0.625, 45)
    assert (rule.scope, rule.scope_value, rule.url, rule.addresses) == ("environment", "Sokoban", HOOK, [])
    assert "Collapse" in text_of(who.viewer, "/alerts")


@pytest.mark.parametrize("mail", [True, False])
def test_a_new_rule_begins_with_a_channel_that_works(mail: bool, who: Visitors, settings: Settings) -> None:
    settings.ECHOSCOPE_MAIL = mail
    page = text_of(who.owner, "/alerts/new")
    assert contains(page, '<option value="inbox" selected>')
    assert ("E-mail (not configured)" in page) is not mail


def test_the_secret_is_shown_once_to_the_creator_of_the_rule(who: Visitors) -> None:
    who.owner.post("/alerts/new", ANSWERS)
    rule = Rule.objects.get()
    address = f"/alerts/{rule.slug}"
    assert rule.secret not in text_of(who.viewer, address)
    assert rule.secret in text_of(who.owner, address)
    assert rule.secret not in text_of(who.owner, address)
    assert rule.secret not in text_of(who.owner, f"{address}/edit")
    old = rule.secret
    who.owner.post(f"{address}/secret")
    rule.refresh_from_db()
    assert rule.secret != old
    page = text_of(who.owner, address)
    assert rule.secret in page
    assert old not in page
    assert rule.secret not in text_of(who.owner, address)
    assert "the old secret also signs until" in page
    who.owner.post(f"{address}/secret/former")
    rule.refresh_from_db()
    assert rule.former_secrets == []
    assert "the old secret also signs until" not in text_of(who.owner, address)


def test_readers_see_the_destination_without_its_secret_path(who: Visitors, make_rule: Make) -> None:
    rule = make_rule(channel=Rule.Channel.SLACK, url=HOOK, addresses=[])
    for address in ("/alerts", f"/alerts/{rule.slug}"):
        shown = text_of(who.viewer, address)
        assert "https://hooks.example.org/…" in shown
        assert "very-secret-path" not in shown
    assert HOOK in text_of(who.owner, f"/alerts/{rule.slug}")


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"events": []}, "Choose at least one event."),
        ({"name": ""}, "This field is required."),
        ({"url": "http://127.0.0.2/"}, "private network"),
        ({"url": "https://hooks.example.org:6379/"}, "not to 6379"),
        ({"url": "ftp://example.org"}, "must begin with https"),
        ({"channel": "email", "addresses": ""}, "Enter at least one address."),
        ({"channel": "email", "addresses": "ada, b@example.org"}, "ada is not an e-mail address."),
        ({"channel": "email", "addresses": " ".join(f"a{n}@example.org" for n in range(11))}, "At most 10 addresses"),
        ({"scope": "tag"}, "Enter the tag."),
        ({"environment": ""}, "Choose an environment."),
        ({"threshold": "101"}, "less than or equal to 100"),
        ({"queued_minutes": "0"}, "greater than or equal to 1"),
    ],
)
def test_an_invalid_field_shows_its_error_and_nothing_is_saved(
    who: Visitors, changed: dict[str, Any], message: str
) -> None:
    answer = who.owner.post("/alerts/new", ANSWERS | changed)
    assert answer.status_code == 200
    assert message in html.unescape(answer.content.decode())
    assert not Rule.objects.exists()


def test_a_rule_is_edited_toggled_and_deleted(who: Visitors, make_rule: Make) -> None:
    rule = make_rule()
    address = f"/alerts/{rule.slug}"
    shown = text_of(who.owner, f"{address}/edit")
    assert 'value="Tell us"' in shown
    assert "team@example.org" in shown
    mail = {"channel": "email", "addresses": "x@example.org; y@example.org", "name": "Changed"}
    assert who.owner.post(f"{address}/edit", ANSWERS | mail).status_code == 302
    rule.refresh_from_db()
    assert (rule.name, rule.addresses, rule.url) == ("Changed", ["x@example.org", "y@example.org"], "")
    who.owner.post(f"{address}/switch", {"on": "0"})
    rule.refresh_from_db()
    assert not rule.enabled
    who.owner.post(f"{address}/switch", {"on": "1"})
    rule.refresh_from_db()
    assert rule.enabled
    assert who.owner.post(f"{address}/delete").headers["Location"] == "/alerts"
    assert not Rule.objects.exists()


def test_viewers_read_pages_without_buttons(who: Visitors, make_rule: Make) -> None:
    rule = make_rule()
    delivery = do_test_rule(rule)
    inside = f"/alerts/{rule.slug}/deliveries/{delivery.slug}"
    for address in ("/alerts", f"/alerts/{rule.slug}", inside):
        shown = who.viewer.get(address)
        assert shown.status_code == 200
        assert not contains(shown.content.decode().split("<main")[1], "<button")
    assert rule.name not in text_of(who.outsider, "/alerts")


def test_a_rule_is_not_created_in_a_team_with_read_access_only(who: Visitors, make_rule: Make) -> None:
    rule = make_rule()
    for slug in (rule.team.slug, "no-such-team"):
        assert who.outsider.post("/alerts/new", ANSWERS | {"team": slug}).status_code == 404
        assert who.outsider.get(f"/alerts/new?team={slug}").status_code == 404
    assert Rule.objects.get() == rule
    who.outsider.post("/alerts/new", ANSWERS)
    assert Rule.objects.exclude(pk=rule.pk).get().team.name == "Elsewhere"


def test_a_test_and_a_resend_reach_the_receiver(
    who: Visitors, make_rule: Make, receiver: Receiver, transactional_db: None
) -> None:
    rule = make_rule(channel=Rule.Channel.WEBHOOK, url=receiver.url, addresses=[])
    who.owner.post(f"/alerts/{rule.slug}/test")
    waiting = text_of(who.owner, f"/alerts/{rule.slug}")
    assert "Waiting" in waiting
    assert re.search(r"/deliveries/[\w-]+\">\s*Test</a>", waiting)
    assert 'hx-trigger="every 3s"' in waiting
    deliver_due()
    done = who.owner.get(f"/alerts/{rule.slug}", headers={"HX-Request": "true"}).content.decode()
    assert "Delivered" in done
    assert "hx-trigger" not in done
    assert "<html" not in done
    delivery = Delivery.objects.get()
    address = f"/alerts/{rule.slug}/deliveries/{delivery.slug}"
    shown = text_of(who.viewer, address)
    assert f'"id": "{delivery.slug}"' in shown
    assert "Accepted" in shown
    who.owner.post(f"{address}/again")
    deliver_due()
    assert len(receiver.requests) == 2
    assert receiver.requests[0][1] == receiver.requests[1][1]


def test_a_delivery_is_reachable_only_through_its_own_rule(who: Visitors, make_rule: Make) -> None:
    delivery = do_test_rule(make_rule())
    other = make_rule(name="other")
    assert who.owner.get(f"/alerts/{other.slug}/deliveries/{delivery.slug}").status_code == 404


def test_the_query_count_of_pages_is_constant(
    run: Run, who: Visitors, make_rule: Make, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    rules = [make_rule(name=f"rule {number}", events=["watch"]) for number in range(12)]
    for number in range(12):
        raise_alarm(run, number)
    dispatch()
    for address in ("/alerts", f"/alerts/{rules[0].slug}"):
        with django_assert_max_num_queries(10):
            assert who.owner.get(address).status_code == 200
