"""What one person may do only so often: teams, invitations; and what names may hold."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from django.core import mail
from django.db import connection
from django.utils import timezone
from pytest_django import Settings

from tests.webapp.conftest import People
from tests.webapp.page_requests import Visitors, who
from webapp.core.quotas import QuotaExceeded
from webapp.teams.daily_use import Kind, do_count_use, do_forget_uses
from webapp.teams.models import DailyUse, Invitation, Team, User

__all__ = ["who"]

EVIL = "Alpha <b>x</b> https://evil.example.org/x click evil.example.org now"


def test_a_person_creates_a_limited_number_of_teams(people: People, who: Visitors, settings: Settings) -> None:
    settings.ECHOSCOPE_MAX_TEAMS_PER_PERSON = 3  # one was created with the people
    for name in ("Two", "Three"):
        assert who.owner.post("/team/new", {"name": name}).headers["Location"] != "/teams?all=1"
    answer = who.owner.post("/team/new", {"name": "Four"}, follow=True)
    assert "You have already created 3 teams" in answer.content.decode()
    assert not Team.objects.filter(name="Four").exists()
    User.objects.filter(pk=people.owner.pk).update(is_staff=True)
    who.owner.post("/team/new", {"name": "Four"})
    assert Team.objects.get(name="Four").creator == people.owner
    who.outsider.post("/team/new", {"name": "Five"})
    assert Team.objects.filter(name="Five").exists(), "each person has their own limit"


def test_invitations_are_limited_per_person_and_day(people: People, who: Visitors, settings: Settings) -> None:
    settings.ECHOSCOPE_MAIL, settings.ECHOSCOPE_MAX_INVITATIONS_PER_DAY = True, 2
    address = f"/team/{people.team.slug}/invitations"
    for number in range(3):
        page = who.owner.post(address, {"email": f"new{number}@example.org", "role": "viewer"}, follow=True)
    assert "No invitation was created. You have sent too many invitations today. The limit is 2 a day." in (
        page.content.decode()
    )
    assert len(mail.outbox) == Invitation.objects.count() == 2
    DailyUse.objects.update(day=timezone.now().date() - timedelta(days=1))
    who.owner.post(address, {"email": "new4@example.org", "role": "viewer"})
    assert len(mail.outbox) == 3, "the next day has its own count"


def test_an_invitation_carries_no_link_of_the_team_s_name(people: People, who: Visitors, settings: Settings) -> None:
    settings.ECHOSCOPE_MAIL = True
    who.owner.post(f"/team/{people.team.slug}/settings", {"name": EVIL, "retention_days": ""})
    who.owner.post(f"/team/{people.team.slug}/invitations", {"email": "new@example.org", "role": "viewer"})
    (message,) = mail.outbox
    assert message.subject == "Echoscope: join Alpha <b>x</b> … click … now"
    assert "evil.example.org" not in str(message.body)


@pytest.mark.parametrize("name", ["One\nTwo", "One\r\nTwo", "One\u2028Two", "One\x0b  Two\n"])
def test_names_have_no_line_breaks(people: People, who: Visitors, name: str, settings: Settings) -> None:
    settings.ECHOSCOPE_MAIL = True
    who.owner.post("/team/new", {"name": name})
    made = Team.objects.order_by("-pk")[0]
    assert made.name == "One Two"
    who.owner.post(f"/team/{people.team.slug}/settings", {"name": name, "retention_days": ""})
    people.team.refresh_from_db()
    assert people.team.name == "One Two"
    who.owner.post(f"/team/{people.team.slug}/invitations", {"email": "new@example.org", "role": "viewer"})
    assert mail.outbox[0].subject == "Echoscope: join One Two"


def test_counts_of_past_days_are_forgotten(people: People) -> None:
    do_count_use(Kind.IMPORTS, people.team, "No.")
    do_forget_uses(timezone.now() + timedelta(days=6))
    assert DailyUse.objects.exists()
    do_forget_uses(timezone.now() + timedelta(days=9))
    assert not DailyUse.objects.exists()


def test_a_quota_of_zero_is_no_limit(people: People, settings: Settings) -> None:
    settings.ECHOSCOPE_MAX_IMPORTS_PER_DAY = 0
    for _ in range(3):
        do_count_use(Kind.IMPORTS, people.team, "No.")
    assert not DailyUse.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_simultaneous_requests_cannot_exceed_a_daily_quota(people: People, settings: Settings) -> None:
    settings.ECHOSCOPE_MAX_IMPORTS_PER_DAY = 5
    refused: list[str] = []

    def count() -> None:
        try:
            do_count_use(Kind.IMPORTS, people.team, "Too many.")
        except QuotaExceeded as refusal:
            refused.append(str(refusal))
        finally:
            connection.close()

    threads = [threading.Thread(target=count) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert DailyUse.objects.get().count == 5
    assert len(refused) == 3
