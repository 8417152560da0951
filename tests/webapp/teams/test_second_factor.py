"""Second factors: set up, asked for at each login, guessed, lost, and reset by an operator."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import struct
from dataclasses import dataclass
from html import unescape
from io import StringIO
from types import SimpleNamespace

import pytest
from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from django.core.cache import cache
from django.core.mail import EmailMessage
from django.core.management import CommandError, call_command
from django.test import Client
from pytest_django import Settings

from tests.webapp.conftest import People
from webapp.teams.actions import do_create_token
from webapp.teams.models import Membership, User
from webapp.teams.second_factor import second_factor_text

SECRET = "a long secret"


@dataclass
class Phone:
    """An authenticator app (RFC 6238), with a clock that the site shares."""

    secret: str = ""
    now: float = 1_800_000_000.0

    def code(self) -> str:
        digest = hmac.digest(base64.b32decode(self.secret), struct.pack(">Q", int(self.now) // 30), hashlib.sha1)
        offset = digest[-1] & 15
        number: int = struct.unpack(">I", digest[offset : offset + 4])[0] & 0x7FFFFFFF
        return f"{number % 1_000_000:06}"

    def wait(self) -> str:
        """The next code."""
        self.now += 30
        return self.code()


@pytest.fixture
def phone(people: People, monkeypatch: pytest.MonkeyPatch) -> Phone:
    cache.clear()
    own = Phone()
    monkeypatch.setattr("allauth.mfa.totp.internal.auth.time", SimpleNamespace(time=lambda: own.now))
    return own


def password_given(user: User) -> Client:
    """A client that gave the right password; whether that is enough is for the site to decide."""
    client = Client()
    client.post("/login", {"login": user.username, "password": SECRET})
    return client


def is_logged_in(client: Client) -> bool:
    return client.get("/account").status_code == 200


def set_up(user: User, phone: Phone) -> list[str]:
    """Set up the app as a person does. Returns the recovery codes of the page that follows."""
    client = password_given(user)
    client.post("/account/confirm", {"password": SECRET})
    page = client.get("/account/second-factor/app").content.decode()
    assert 'src="data:image/svg+xml;base64,' in page
    phone.secret = re.findall(r"<code>([A-Z2-7]{32})</code>", page)[0]
    page = client.post("/account/second-factor/app", {"code": phone.code()}, follow=True).content.decode()
    return re.findall(r"<li><code>(\d{8})</code>", page)


def enter(client: Client, code: str) -> str:
    """The page that follows."""
    return unescape(client.post("/login/code", {"code": code}, follow=True).content.decode())


def test_setting_up_an_app_requires_the_password_again(people: People, phone: Phone) -> None:
    client = Client()
    client.force_login(people.owner)
    address = "/account/second-factor/app"
    assert client.get(address)["Location"].startswith("/account/confirm?next=")
    assert client.post(address, {"code": "123456"})["Location"].startswith("/account/confirm?next=")
    assert not Authenticator.objects.exists()


def test_a_password_alone_no_longer_logs_in(people: People, phone: Phone) -> None:
    set_up(people.owner, phone)
    client = password_given(people.owner)
    assert not is_logged_in(client)
    assert client.get("/login/code").status_code == 200
    assert "This code is wrong" in enter(client, "000000")
    assert not is_logged_in(client)
    enter(client, phone.wait())
    assert is_logged_in(client)
    assert is_logged_in(password_given(people.viewer)), "others log in as before"


def test_a_code_that_was_read_over_the_shoulder_is_of_no_use(people: People, phone: Phone) -> None:
    set_up(people.owner, phone)
    code = phone.wait()
    client, thief = password_given(people.owner), password_given(people.owner)
    enter(client, code)
    assert is_logged_in(client)
    enter(thief, code)
    assert not is_logged_in(thief)


def test_codes_cannot_be_guessed(people: People, phone: Phone) -> None:
    set_up(people.owner, phone)
    for number in range(5):
        assert "This code is wrong" in enter(password_given(people.owner), f"{number:06}")
    client = password_given(people.owner)
    assert "Too many failed attempts" in enter(client, phone.wait())
    assert not is_logged_in(client)


def test_a_recovery_code_logs_in_once(people: People, phone: Phone) -> None:
    codes = set_up(people.owner, phone)
    assert len(set(codes)) == 10
    first, again, second = (password_given(people.owner) for _ in range(3))
    enter(first, codes[0])
    enter(again, codes[0])
    enter(second, codes[1])
    assert [is_logged_in(client) for client in (first, again, second)] == [True, False, True]


def test_recovery_codes_are_shown_after_the_password_only_and_never_stored_by_a_browser(
    people: People, phone: Phone
) -> None:
    codes = set_up(people.owner, phone)
    client = Client()
    client.force_login(people.owner)
    for address in ("/account/recovery-codes", "/account/recovery-codes.txt"):
        assert client.get(address)["Location"].startswith("/account/confirm?next=")
    client.post("/account/confirm", {"password": SECRET})
    for address in ("/account/recovery-codes", "/account/recovery-codes.txt"):
        shown = client.get(address)
        assert codes[0] in shown.content.decode()
        assert "no-store" in shown.headers["Cache-Control"]


def test_tokens_of_programs_work_without_a_second_factor(people: People, phone: Phone) -> None:
    _, token = do_create_token(people.team, people.owner, "nightly", ["read"])
    set_up(people.owner, phone)
    assert Client().get("/api/runs", headers={"Authorization": f"Bearer {token}"}).status_code == 200


def test_admins_see_who_has_a_second_factor(people: People, phone: Phone) -> None:
    Membership.objects.filter(user=people.viewer).update(role=Membership.Role.ADMIN)
    set_up(people.viewer, phone)
    client = Client()
    client.force_login(people.owner)
    address = f"/team/{people.team.slug}"
    rows = re.findall(r"<tr>(.*?)</tr>", client.get(address).content.decode(), re.DOTALL)
    shown = {
        name: f">{answer}</td>" in row
        for name, answer in (("ada", "no"), ("grace", "yes"))
        for row in rows
        if name in row
    }
    assert shown == {"ada": True, "grace": True}
    Membership.objects.filter(user=people.owner).update(role=Membership.Role.MEMBER)
    assert "Second factor" not in client.get(address).content.decode()


def test_an_operator_helps_a_person_who_lost_their_phone(people: People, phone: Phone) -> None:
    set_up(people.owner, phone)
    lost = password_given(people.owner)
    enter(lost, phone.wait())
    bystander = password_given(people.viewer)
    output = StringIO()
    call_command("reset_second_factor", "ADA", stdout=output)
    assert "1 second factor of ada removed" in output.getvalue()
    assert not is_logged_in(lost), "the phone may have been stolen"
    assert is_logged_in(bystander)
    assert is_logged_in(password_given(people.owner))
    assert not Authenticator.objects.exists(), "recovery codes go with it"
    with pytest.raises(CommandError, match="no account"):
        call_command("reset_second_factor", "nobody")


def test_removing_the_app_makes_the_password_enough_again(people: People, phone: Phone) -> None:
    set_up(people.owner, phone)
    assert second_factor_text(people.owner) == "authenticator app"
    client = password_given(people.owner)
    enter(client, phone.wait())
    assert "authenticator app" in client.get("/account").content.decode()
    remove_app(people.owner, phone)
    assert second_factor_text(people.owner) == ""
    assert is_logged_in(password_given(people.owner))


class BrokenMail:
    """A mail server that cannot be reached."""

    def __init__(self, **kwargs: object) -> None:
        pass

    def send_messages(self, messages: object) -> int:
        raise ConnectionRefusedError("no mail server")


def remove_app(user: User, phone: Phone) -> None:
    """Remove the app as a person does."""
    client = password_given(user)
    enter(client, phone.wait())
    client.post("/account/confirm", {"password": SECRET})
    client.post("/account/second-factor/app/remove")


@pytest.mark.django_db(transaction=True)  # the mail is sent after the commit
def test_the_owner_is_told_by_mail_when_access_changes(
    people: People, phone: Phone, settings: Settings, mailoutbox: list[EmailMessage]
) -> None:
    settings.ECHOSCOPE_MAIL = True
    EmailAddress.objects.create(user=people.owner, email="owner@example.org", primary=True, verified=True)
    set_up(people.owner, phone)
    remove_app(people.owner, phone)
    bodies = [mail.body for mail in mailoutbox if mail.to == ["owner@example.org"]]
    assert len(bodies) == 2
    assert "Authenticator app activated." in bodies[0]
    assert "Authenticator app deactivated." in bodies[1]
    assert all("If this was not you, reset your password now" in body for body in bodies)
    assert phone.secret not in "".join(bodies)


def test_access_changes_even_if_the_mail_about_it_fails(people: People, phone: Phone, settings: Settings) -> None:
    set_up(people.owner, phone)
    settings.ECHOSCOPE_MAIL = True
    settings.EMAIL_BACKEND = f"{__name__}.BrokenMail"
    EmailAddress.objects.create(user=people.owner, email="owner@example.org", primary=True, verified=True)
    remove_app(people.owner, phone)
    assert second_factor_text(people.owner) == ""


def test_administration_shows_no_secrets(people: People, phone: Phone) -> None:
    set_up(people.owner, phone)
    User.objects.filter(pk=people.viewer.pk).update(is_staff=True, is_superuser=True)
    client = password_given(people.viewer)
    for factor in Authenticator.objects.all():
        page = client.get(f"/admin/mfa/authenticator/{factor.pk}/change/").content.decode()
        assert "Created at" in page
        assert all(str(secret) not in page for secret in factor.data.values() if secret)
