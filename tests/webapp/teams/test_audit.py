"""The audit log: what logins leave there, who reads it, its files, and its age."""

from __future__ import annotations

import csv
import io
import json
from datetime import timedelta

import pytest
from django.contrib.auth.models import Permission
from django.core import mail
from django.core.cache import cache
from django.core.management import call_command
from django.db import transaction
from django.http import HttpResponse
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from tests.webapp.conftest import People
from tests.webapp.page_requests import Visitors, who
from tests.webapp.teams.test_second_factor import Phone, enter, password_given, phone, set_up
from webapp.runs.models import Run
from webapp.teams import actions, audit
from webapp.teams.first_login import link
from webapp.teams.models import AuditAction, AuditEntry, Membership, User

__all__ = ["phone", "who"]

SECRET = "a long secret"
NEW = "another long secret"


@pytest.fixture(autouse=True)
def _no_limits_of_other_tests(people: People) -> None:
    cache.clear()


def words(page: HttpResponse) -> str:
    """The HTML of a page with single spaces."""
    return " ".join(page.content.decode().split())


def logged() -> list[tuple[str, str, str]]:
    """(who, what, of what) of all entries, oldest first."""
    return list(AuditEntry.objects.order_by("pk").values_list("username", "action", "subject"))


def test_logins_leave_name_address_and_browser(people: People) -> None:
    client = Client(headers={"User-Agent": "Mozilla/5.0 (X11; Linux) Firefox/144.0"}, REMOTE_ADDR="192.0.2.7")
    for name, password in (("ADA", "guess"), ("ada", SECRET)):
        client.post("/login", {"login": name, "password": password})
    client.post("/logout")
    assert logged() == [("ada", "login-failed", "wrong password"), ("ada", "login", ""), ("ada", "logout", "")]
    places = set(AuditEntry.objects.values_list("address", "means", "team"))
    assert places == {("192.0.2.7", "Firefox on Linux", None)}


def test_a_password_typed_into_the_wrong_field_is_not_stored() -> None:
    Client().post("/login", {"login": "my secret phrase", "password": "ada"})
    assert logged() == [("", "login-failed", "unknown name")]
    assert "secret phrase" not in str(AuditEntry.objects.values())
    assert str(AuditEntry.objects.get()).endswith("a visitor: Failed to log in unknown name")


def test_guessed_codes_and_changed_factors_are_entries(people: People, phone: Phone) -> None:
    set_up(people.owner, phone)
    enter(password_given(people.owner), "000000")
    assert ("ada", "account-changed", "second factor of ada added: TOTP Authenticator") in logged()
    assert logged()[-1] == ("ada", "login-failed", "wrong code")
    call_command("reset_second_factor", "ada")
    assert ("", "account-changed", "second factor of ada removed: TOTP Authenticator") in logged()


def test_the_link_of_the_first_start_is_a_login(people: People) -> None:
    Client().post(link(people.owner, "/"))
    assert logged() == [("ada", "login", "")]


def test_new_passwords_are_entries_however_they_are_set(people: People, who: Visitors, settings: Settings) -> None:
    settings.ECHOSCOPE_MAIL = True
    User.objects.filter(pk=people.owner.pk).update(email="ada@example.org")
    who.owner.post("/account/password", {"oldpassword": SECRET, "password1": NEW, "password2": NEW})
    client = Client()
    client.post("/account/password/forgotten", {"email": "ada@example.org"})
    words = [word for sent in mail.outbox for word in sent.body.split()]
    address = next(word for word in words if "/account/password/new/" in word)
    page = client.get(address.removeprefix("http://testserver"), follow=True)
    client.post(page.redirect_chain[-1][0], {"password1": SECRET, "password2": SECRET})
    changes = [entry for entry in logged() if entry[1] == "account-changed"]
    assert changes == [("ada", "account-changed", "the password")] * 2


def test_whoever_joins_by_an_invitation_is_an_entry_of_the_team(people: People) -> None:
    invitation = actions.do_invite(people.team, people.owner, Membership.Role.MEMBER)
    client = Client()
    client.get(f"/invitations/{invitation.token}")
    client.post("/signup", {"username": "eve", "password1": NEW, "password2": NEW})
    joined = AuditEntry.objects.get(action=AuditAction.JOINED)
    assert (joined.username, joined.team, joined.details) == ("eve", people.team, {"role": "member"})


def test_a_change_under_administration_is_an_entry(people: People, who: Visitors) -> None:
    User.objects.filter(pk=people.owner.pk).update(is_staff=True, is_superuser=True)
    form = {"name": "Renamed", "memberships-TOTAL_FORMS": "0", "memberships-INITIAL_FORMS": "0"}
    assert who.owner.post(f"/admin/teams/team/{people.team.pk}/change/", form).status_code == 302
    assert logged()[-1][:2] == ("ada", "administered")
    assert "Renamed" in logged()[-1][2]


def test_an_action_that_fails_leaves_no_entry(people: People) -> None:
    with transaction.atomic():
        actions.do_set_role(people.team, people.viewer, Membership.Role.MEMBER)
        transaction.set_rollback(True)
    with pytest.raises(actions.TeamRefused):
        actions.do_remove_member(people.team, people.owner, people.owner)
    assert not AuditEntry.objects.exists()


def test_what_the_clock_and_commands_do_is_the_site_s(people: People) -> None:
    actions.do_change_team(people.team, "Renamed", None)
    entry = AuditEntry.objects.get()
    assert (entry.username, entry.address, entry.means) == ("", None, "")


def test_an_entry_outlives_account_run_and_team(people: People, run: Run, who: Visitors) -> None:
    address = f"/runs/{run.slug}/visibility"
    who.owner.post(address, {"visibility": "link"})
    run.delete()
    people.team.delete()
    people.owner.delete()
    entry = AuditEntry.objects.get(action=AuditAction.RUN_CHANGED)
    assert (entry.username, entry.subject, entry.details["visibility"]) == ("ada", "run “Trial”", "link")


def test_admins_read_the_entries_of_their_team_only(people: People, who: Visitors) -> None:
    actions.do_set_role(people.team, people.viewer, Membership.Role.MEMBER)
    actions.do_create_team("Elsewhere too", people.outsider)
    page = who.owner.get(f"/team/{people.team.slug}/audit").content.decode()
    assert "Changed a role" in page
    assert "was: viewer, role: member" in page
    assert "Elsewhere too" not in page
    assert who.viewer.get(f"/team/{people.team.slug}/audit").status_code == 403
    assert who.outsider.get(f"/team/{people.team.slug}/audit").status_code == 404


def test_staff_with_the_permission_reads_the_whole_log(people: People, who: Visitors) -> None:
    User.objects.filter(pk=people.viewer.pk).update(is_staff=True)
    assert who.viewer.get("/audit").status_code == 404
    people.viewer.user_permissions.add(Permission.objects.get(codename="view_auditentry"))
    actions.do_create_team("Elsewhere too", people.outsider)
    assert "Elsewhere too" in who.viewer.get("/audit").content.decode()
    assert 'href="/audit"' in who.viewer.get("/account").content.decode()


def test_entries_are_filtered_by_person_action_and_day(people: People, who: Visitors) -> None:
    who.owner.post(f"/team/{people.team.slug}/settings", {"name": "First"})
    AuditEntry.objects.update(at=timezone.now() - timedelta(days=3))
    who.owner.post(f"/team/{people.team.slug}/members/grace/role", {"role": "admin"})
    who.viewer.post(f"/team/{people.team.slug}/settings", {"name": "Second"})
    day = f"{timezone.now() - timedelta(days=2):%Y-%m-%d}"

    def found(query: str) -> list[bool]:
        page = words(who.owner.get(f"/team/{people.team.slug}/audit?{query}"))
        return [text in page for text in ("settings: First", "role: grace", "settings: Second")]

    assert found("") == [True, True, True]
    assert found("person=GRACE") == [False, False, True]
    assert found("action=team-changed") == [True, False, True]
    assert found(f"since={day}") == [False, True, True]
    assert found(f"until={day}") == [True, False, False]
    assert found("until=9999-12-31") == [True, True, True]
    assert found("since=yesterday&action=nothing") == [True, True, True], "with an error at the field"


def test_older_entries_are_on_further_pages(people: People, who: Visitors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webapp.pages.teams.audit_views.ENTRIES_PER_PAGE", 2)
    for name in ("One", "Two", "Three"):
        actions.do_change_team(people.team, name, None)
    address = f"/team/{people.team.slug}/audit"
    first = words(who.owner.get(address))
    assert "settings: Three" in first
    assert "settings: One" not in first
    oldest = AuditEntry.objects.order_by("pk")[1].pk
    assert f"?before={oldest}" in first
    assert "settings: One" in words(who.owner.get(f"{address}?before={oldest}"))


def test_files_hold_all_entries_and_no_formula(people: People, who: Visitors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webapp.teams.audit_reading.BATCH", 2)
    for name in ("=1+1", "Two", "Three", "Four"):
        actions.do_change_team(people.team, name, 30)
    address = f"/team/{people.team.slug}/audit"
    text = b"".join(who.owner.get(f"{address}/csv?action=team-changed").streaming_content).decode()  # type: ignore[arg-type]
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["subject"] for row in rows] == ["Four", "Three", "Two", "'=1+1"]
    lines = b"".join(who.owner.get(f"{address}/jsonl").streaming_content).splitlines()  # type: ignore[arg-type]
    entries = [json.loads(line) for line in lines]
    assert [entry["action"] for entry in entries] == ["exported", "exported", *["team-changed"] * 4]
    assert entries[-1]["subject"] == "=1+1"
    assert entries[-1]["details"] == {"retention_days": 30}


def test_entries_are_deleted_by_age_only(people: People, settings: Settings) -> None:
    for name in ("Old", "New"):
        actions.do_change_team(people.team, name, None)
    now = timezone.now()
    AuditEntry.objects.filter(subject="Old").update(at=now - timedelta(days=31))
    settings.ECHOSCOPE_AUDIT_DAYS = 0
    assert audit.do_forget_entries(now) == 0
    settings.ECHOSCOPE_AUDIT_DAYS = 30
    assert audit.do_forget_entries(now) == 1
    assert AuditEntry.objects.get().subject == "New"
