"""Sessions of a user: the list on the account page, their end, and the record of their use."""

from __future__ import annotations

from datetime import timedelta

import pytest
from allauth.usersessions.models import UserSession
from django.contrib.sessions.models import Session
from django.core.cache import cache
from django.db import OperationalError
from django.test import Client
from django.utils import timezone

from tests.webapp.conftest import People
from webapp.teams import user_sessions
from webapp.teams.models import User
from webapp.teams.user_sessions import do_forget_sessions, list_sessions

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:144.0) Gecko/20100101 Firefox/144.0"
IPHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1 Version/18.1 Mobile/1 Safari/604.1"
SECRET = "a long secret"


@pytest.fixture(autouse=True)
def _no_limits_of_other_tests(people: People) -> None:
    cache.clear()


def logged_in(user: User, user_agent: str = FIREFOX, address: str = "192.0.2.7") -> Client:
    client = Client(headers={"User-Agent": user_agent}, REMOTE_ADDR=address)
    assert client.post("/login", {"login": user.username, "password": SECRET})["Location"] == "/"
    return client


def is_logged_in(client: Client) -> bool:
    return client.get("/account").status_code == 200


def key_of(client: Client) -> str:
    key = client.session.session_key
    assert key
    return key


def test_a_person_sees_their_sessions_and_ends_one(people: People) -> None:
    here, phone = logged_in(people.owner), logged_in(people.owner, IPHONE, "2001:db8::5")
    stranger = logged_in(people.outsider)
    page = here.get("/account").content.decode()
    assert all(text in page for text in ("Firefox on Linux", "192.0.2.7", "Safari on iPhone", "2001:db8::5"))
    assert page.count("this session") == 1
    assert "2 sessions" in page
    lost = UserSession.objects.get(session_key=key_of(phone))
    assert stranger.post(f"/account/sessions/{lost.pk}/end").status_code == 404
    assert is_logged_in(phone)
    assert here.post(f"/account/sessions/{lost.pk}/end")["Location"] == "/account#sessions"
    assert not is_logged_in(phone)
    assert is_logged_in(here)
    assert is_logged_in(stranger)
    assert "Safari on iPhone" not in here.get("/inbox").content.decode() + here.get("/account").content.decode()


def test_all_other_sessions_end_at_once(people: People) -> None:
    here, others = logged_in(people.owner), [logged_in(people.owner) for _ in range(3)]
    stranger = logged_in(people.outsider)
    assert "3 other sessions ended" in here.post("/account/sessions/end", follow=True).content.decode()
    assert [is_logged_in(client) for client in (here, *others, stranger)] == [True, False, False, False, True]


def test_ending_the_own_session_logs_out(people: People) -> None:
    here = logged_in(people.owner)
    own = UserSession.objects.get(session_key=key_of(here))
    assert here.post(f"/account/sessions/{own.pk}/end")["Location"] == "/login"
    assert not is_logged_in(here)


def test_a_new_password_ends_all_other_sessions(people: People) -> None:
    here, phone = logged_in(people.owner), logged_in(people.owner, IPHONE)
    new = "another long secret"
    here.post("/account/password", {"oldpassword": SECRET, "password1": new, "password2": new})
    assert is_logged_in(here)
    assert not is_logged_in(phone)
    shown = list_sessions(User.objects.get(pk=people.owner.pk), key_of(here), timezone.now())
    assert [(session.client, session.current) for session in shown] == [("Firefox on Linux", True)]


def test_a_session_that_began_elsewhere_is_recorded_by_its_first_page(people: People) -> None:
    """The link of the first start logs in without allauth, and sessions of earlier versions have no record."""
    client = Client(headers={"User-Agent": FIREFOX}, REMOTE_ADDR="")
    client.force_login(people.owner)
    assert not UserSession.objects.exists()
    client.get("/account")
    page = client.get("/account").content.decode()
    assert "Firefox on Linux" in page
    assert "unknown" in page, "behind a Unix socket there is no address"


def test_use_is_recorded_once_in_a_while(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    client = logged_in(people.owner)
    client.get("/account")
    record = UserSession.objects.get(session_key=key_of(client))
    client.get("/account", REMOTE_ADDR="198.51.100.1")
    assert UserSession.objects.get(pk=record.pk).ip == "192.0.2.7"
    monkeypatch.setitem(user_sessions._recorded, key_of(client), 0.0)
    client.get("/account", REMOTE_ADDR="198.51.100.1")
    moved = UserSession.objects.get(pk=record.pk)
    assert moved.ip == "198.51.100.1"
    assert moved.last_seen_at > record.last_seen_at
    assert moved.created_at == record.created_at


def test_a_page_does_not_fail_with_the_record(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client()
    client.force_login(people.owner)

    def lost(*arguments: object) -> None:
        raise OperationalError("the connection is closed")

    monkeypatch.setattr(type(UserSession.objects), "create_from_request", lost)
    assert client.get("/account").status_code == 200


@pytest.mark.parametrize("address", ["fe80::1%eth0", "not an address", "203.0.113.9:4711"])
def test_odd_addresses_of_proxies_do_not_prevent_a_login(address: str, people: People) -> None:
    assert is_logged_in(logged_in(people.owner, address=address))


def test_expired_sessions_and_records_without_one_are_forgotten(people: People) -> None:
    kept, expired, orphan = (logged_in(people.owner) for _ in range(3))
    Session.objects.filter(pk=key_of(expired)).update(expire_date=timezone.now() - timedelta(minutes=1))
    Session.objects.filter(pk=key_of(orphan)).delete()
    assert len(list_sessions(people.owner, None, timezone.now())) == 1
    do_forget_sessions(timezone.now())
    assert list(UserSession.objects.values_list("session_key", flat=True)) == [key_of(kept)]
    assert list(Session.objects.values_list("pk", flat=True)) == [key_of(kept)]
