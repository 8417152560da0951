"""Alerts are mailed to members and to addresses whose owners have confirmed them; mails are limited per day."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from allauth.account.models import EmailAddress
from django.core import mail
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from tests.webapp.conftest import People
from tests.webapp.notifications.conftest import Make, confirm
from tests.webapp.notifications.test_alert_views import ANSWERS
from tests.webapp.page_requests import Visitors, who
from webapp.notifications.channels import send
from webapp.notifications.mail_addresses import allowed_addresses
from webapp.notifications.models import AlertAddress, Delivery, Rule
from webapp.notifications.rule_actions import do_test_rule
from webapp.teams.models import DailyUse, Team, User

pytestmark = pytest.mark.django_db
__all__ = ["who"]

MAIL = ANSWERS | {"channel": "email", "url": "", "scope": "all"}
STRANGER = "Stranger@example.com"


def saved(client: Client, addresses: str) -> str:
    """The text of the rule's page after a rule with these addresses was created."""
    return " ".join(client.post("/alerts/new", MAIL | {"addresses": addresses}, follow=True).content.decode().split())


def test_a_stranger_gets_one_link_and_no_alert_before_following_it(people: People, who: Visitors) -> None:
    User.objects.filter(pk=people.owner.pk).update(email="ada@example.org")
    page = saved(who.owner, f"ADA@example.org {STRANGER}")
    assert f"Sent a confirmation link to {STRANGER}" in page
    assert f"Waiting for confirmation: {STRANGER}." in page
    (message,) = mail.outbox
    assert message.to == [STRANGER.lower()]
    assert message.subject == "Echoscope: confirm this address for alerts"
    rule = Rule.objects.get()
    delivery = Delivery.objects.select_related("rule__team", "run").get(pk=do_test_rule(rule).pk)
    assert send(delivery).answer == "Handed to the mail server for ADA@example.org."
    link = re.search(r"https://echoscope.example.org(/alerts/addresses/\S+)", str(message.body))
    assert link is not None
    anonymous = Client()
    assert "Permit alerts" in anonymous.get(link[1]).content.decode()
    assert allowed_addresses(rule) == ["ADA@example.org"], "mail programs that look at a link confirm nothing"
    assert "Stop alerts" in anonymous.post(link[1], {"on": "1"}).content.decode()
    assert allowed_addresses(rule) == ["ADA@example.org", STRANGER]
    assert "Waiting for confirmation" not in who.owner.get(f"/alerts/{rule.slug}").content.decode()
    anonymous.post(link[1], {"on": "0"})
    assert allowed_addresses(rule) == ["ADA@example.org"]


def test_an_unknown_link_confirms_nothing(who: Visitors) -> None:
    for client in (who.anonymous, who.owner):
        answer = client.post("/alerts/addresses/guessed", {"on": "1"})
        assert answer.status_code == 404
        assert "This link does not work" in answer.content.decode()


def test_without_a_confirmed_address_nothing_is_sent(make_rule: Make) -> None:
    rule = make_rule()
    AlertAddress.objects.update(confirmed_at=None)
    delivery = Delivery.objects.select_related("rule__team", "run").get(pk=do_test_rule(rule).pk)
    outcome = send(delivery)
    assert not outcome.ok
    assert "None of the addresses" in outcome.answer
    assert not mail.outbox


def test_a_confirmation_counts_for_its_own_team_only(people: People, make_rule: Make) -> None:
    confirm(Team.objects.exclude(pk=people.team.pk).get(), STRANGER)
    rule = make_rule()
    rule.addresses = [STRANGER]
    assert allowed_addresses(rule) == []
    confirm(people.team, STRANGER)
    assert allowed_addresses(rule) == [STRANGER]


def test_an_address_that_a_member_only_claims_is_not_theirs(people: People, make_rule: Make) -> None:
    User.objects.filter(pk=people.owner.pk).update(email=STRANGER)
    rule = make_rule()
    rule.addresses = [STRANGER]
    assert allowed_addresses(rule) == [STRANGER], "set by the operator"
    claimed = EmailAddress.objects.create(user=people.owner, email=STRANGER, verified=False)
    assert allowed_addresses(rule) == []
    EmailAddress.objects.filter(pk=claimed.pk).update(verified=True)
    assert allowed_addresses(rule) == [STRANGER]
    User.objects.filter(pk=people.owner.pk).update(is_active=False)
    assert allowed_addresses(rule) == []


def test_a_link_is_sent_again_only_after_a_while(who: Visitors) -> None:
    saved(who.owner, STRANGER)
    saved(who.owner, STRANGER)
    assert len(mail.outbox) == 1
    AlertAddress.objects.update(sent_at=timezone.now() - timedelta(minutes=11))
    saved(who.owner, STRANGER)
    assert len(mail.outbox) == 2
    assert mail.outbox[0].body == mail.outbox[1].body, "the same link"


def test_links_to_strangers_are_limited_per_person_and_day(who: Visitors, settings: Settings) -> None:
    settings.ECHOSCOPE_MAX_CONFIRMATIONS_PER_DAY = 2
    page = saved(who.owner, "a@example.com b@example.com c@example.com")
    assert "The rule was saved, but an address was not sent its confirmation link." in page
    assert "The limit is 2 a day." in page
    assert len(mail.outbox) == 2
    saved(who.outsider, "c@example.com")
    assert len(mail.outbox) == 3, "each person has their own limit"


def test_test_alerts_are_limited_per_person_and_day(who: Visitors, make_rule: Make, settings: Settings) -> None:
    settings.ECHOSCOPE_MAX_TEST_ALERTS_PER_DAY = 2
    rule = make_rule()
    for _ in range(3):
        page = who.owner.post(f"/alerts/{rule.slug}/test", follow=True).content.decode()
    assert "No test was sent. You have sent too many test alerts today." in page
    assert Delivery.objects.count() == 2
    Delivery.objects.update(state=Delivery.State.FAILED)
    again = f"/alerts/{rule.slug}/deliveries/{Delivery.objects.all()[0].slug}/again"
    assert "too many test alerts" in who.owner.post(again, follow=True).content.decode()
    assert not Delivery.objects.filter(state=Delivery.State.PENDING).exists()
    DailyUse.objects.update(day=timezone.now().date() - timedelta(days=1))
    who.owner.post(again)
    assert Delivery.objects.filter(state=Delivery.State.PENDING).count() == 1


def test_subjects_carry_no_links(make_rule: Make) -> None:
    rule = make_rule(name="Look at https://evil.example.org/x\nnow")
    delivery = Delivery.objects.select_related("rule__team", "run").get(pk=do_test_rule(rule).pk)
    send(delivery)
    assert mail.outbox[0].subject == "Echoscope: Test of Look at … now"
