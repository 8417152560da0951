"""Login and logout, names, e-mail addresses and passwords."""

from __future__ import annotations

import re

import pytest
from allauth.account.models import EmailAddress
from django import conf
from django.core import mail
from django.core.cache import cache
from django.test import Client
from pytest_django import Settings

from tests.webapp.conftest import People
from tests.webapp.fragments import contains
from tests.webapp.page_requests import Visitors, who
from webapp.core import limits_cache
from webapp.teams.models import User

__all__ = ["who"]

SECRET = "a long secret"


@pytest.fixture(autouse=True)
def _no_limits_of_other_tests(people: People) -> None:
    cache.clear()
    people.owner.email = "ada@example.org"
    people.owner.save()


def log_in(client: Client, name: str, password: str = SECRET, next: str = "") -> str:
    """Redirect target, or text of the page."""
    response = client.post("/login", {"login": name, "password": password, "next": next})
    return response.headers.get("Location", "") or response.content.decode()


@pytest.mark.parametrize("name", ["ada", "ada@example.org"])
def test_users_log_in_by_name_or_email(name: str) -> None:
    client = Client()
    assert log_in(client, name) == "/"
    assert client.get("/account").status_code == 200


def test_the_login_redirects_to_the_requested_page_on_this_site_only() -> None:
    page = Client().get("/login?next=/workers").content.decode()
    assert contains(page, 'name="next" value="/workers"')
    assert log_in(Client(), "ada", next="/workers") == "/workers"
    assert log_in(Client(), "ada", next="https://evil.example/") == "/"


def test_a_wrong_password_is_explained_and_attempts_are_limited() -> None:
    client = Client()
    for _ in range(5):
        assert "Wrong name or password" in log_in(client, "ada", "guess")
    assert "Too many failed attempts" in log_in(client, "ada", "guess")
    assert "Too many failed attempts" in log_in(client, "ada", SECRET), "not even the right one, for a while"
    assert log_in(client, "grace") == "/", "others are not locked out by it"


def test_attempts_by_name_and_by_address_count_together() -> None:
    for login in ("ada", "ADA", "ada@example.org", "Ada@Example.org", "ada"):
        assert "Wrong" in log_in(Client(), login, "guess")
    for login in ("ada", "ada@example.org"):
        assert "Too many failed attempts" in log_in(Client(), login, "guess")


def test_a_visitor_cannot_choose_the_address_that_limits_them() -> None:
    """uvicorn replaces REMOTE_ADDR if the proxy is trusted; the header of an untrusted one is not read."""
    for number in range(10):
        log_in(Client(headers={"X-Forwarded-For": f"203.0.113.{number}"}), f"guess{number}", "guess")
    assert "Too many failed attempts" in log_in(Client(headers={"X-Forwarded-For": "203.0.113.99"}), "ada")
    assert log_in(Client(REMOTE_ADDR="198.51.100.7"), "ada") == "/", "other visitors are not locked out by it"


def test_without_redis_attempts_are_still_limited_and_the_right_password_logs_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(limits_cache._paused_until, conf.settings.REDIS_URL, float("inf"))
    assert log_in(Client(), "ada") == "/"
    for _ in range(5):
        assert "Wrong name or password" in log_in(Client(), "ada", "guess")
    assert "Too many failed attempts" in log_in(Client(), "ada")
    assert log_in(Client(), "grace") == "/"


@pytest.mark.parametrize("password", ["49302754", "correcth", "4930275493027", "short word"])
def test_short_and_numeric_passwords_are_refused(who: Visitors, password: str) -> None:
    data = {"oldpassword": SECRET, "password1": password, "password2": password}
    page = who.owner.post("/account/password", data).content.decode()
    assert "at least 12 characters" in page or "entirely numeric" in page
    assert log_in(Client(), "ada") == "/", "the old one stays valid"


def test_a_short_password_of_earlier_versions_still_logs_in(people: People) -> None:
    people.owner.set_password("short")
    people.owner.save()
    assert log_in(Client(), "ada", "short") == "/"


def test_the_admin_site_has_no_login_of_its_own(who: Visitors) -> None:
    assert Client().get("/admin/", follow=True).redirect_chain[-1][0].startswith("/login?next=")
    assert Client().post("/admin/login/", {"username": "ada", "password": "x"})["Location"].startswith("/login")
    assert who.owner.get("/admin/login/").status_code == 403


def test_logout_requires_a_post(who: Visitors) -> None:
    assert "Log out?" in who.owner.get("/logout").content.decode()
    assert who.owner.get("/account").status_code == 200
    assert who.owner.post("/logout")["Location"] == "/login"
    assert who.owner.get("/account")["Location"].startswith("/login")


def test_sign_up_requires_an_invitation() -> None:
    assert "Accounts are by invitation" in Client().get("/signup").content.decode()
    answer = Client().post("/signup", {"username": "eve", "password1": "long enough 1", "password2": "long enough 1"})
    assert "Accounts are by invitation" in answer.content.decode()
    assert not User.objects.filter(username="eve").exists()


def test_the_account_page_shows_the_data_of_the_user(people: People, who: Visitors) -> None:
    page = who.owner.get("/account").content.decode()
    assert "ada@example.org" in page
    assert f'href="/team/{people.team.slug}"' in page
    assert "mallory" not in page
    assert who.anonymous.get("/account")["Location"].startswith("/login")


def test_a_name_is_changed_unless_taken(people: People, who: Visitors) -> None:
    page = who.owner.post("/account/name", {"username": "Grace"})
    assert page.status_code == 422
    assert "This name is already taken" in page.content.decode()
    assert who.owner.post("/account/name", {"username": "a b"}).status_code == 422
    assert who.owner.post("/account/name", {"username": "Ada"})["Location"] == "/account"
    people.owner.refresh_from_db()
    assert people.owner.username == "Ada"
    assert who.anonymous.post("/account/name", {"username": "x"})["Location"].startswith("/login")


def test_changing_a_password_requires_the_old_one(people: People, who: Visitors) -> None:
    data = {"oldpassword": "guess", "password1": "quite another 7", "password2": "quite another 7"}
    assert "not your current password" in who.owner.post("/account/password", data).content.decode()
    done = who.owner.post("/account/password", data | {"oldpassword": SECRET}, follow=True)
    assert "Password changed." in done.content.decode()
    assert log_in(Client(), "ada", "quite another 7") == "/"


def test_a_forgotten_password_is_reset_by_a_single_use_link(settings: Settings) -> None:
    settings.ECHOSCOPE_MAIL = True
    client = Client()
    sent = client.post("/account/password/forgotten", {"email": "Ada@example.org"}, follow=True)
    assert "Check your e-mail" in sent.content.decode()
    (message,) = mail.outbox
    assert message.to == ["ada@example.org"]
    assert message.subject == "Echoscope: a new password"
    link = re.search(r"http://testserver(/account/password/new/\S+)", message.body)
    assert link is not None
    form = client.get(link[1], follow=True)
    action = form.redirect_chain[-1][0]
    data = {"password1": "quite another 7", "password2": "quite another 7"}
    assert "Password changed" in client.post(action, data, follow=True).content.decode()
    assert log_in(Client(), "ada", "quite another 7") == "/"
    assert "is no longer valid" in Client().get(link[1], follow=True).content.decode()


def test_a_password_reset_does_not_reveal_accounts(settings: Settings) -> None:
    settings.ECHOSCOPE_MAIL = True
    pages = []
    for email in ("ada@example.org", "nobody@example.org"):
        page = Client().post("/account/password/forgotten", {"email": email}, follow=True).content.decode()
        pages.append(re.sub(r'"X-CSRFToken": "\w+"', "", page))
    assert pages[0] == pages[1]
    assert [message.to for message in mail.outbox] == [["ada@example.org"]]


def test_an_email_is_verified_by_its_link(people: People, who: Visitors, settings: Settings) -> None:
    settings.ECHOSCOPE_MAIL = True
    EmailAddress.objects.create(user=people.owner, email="ada@example.org", verified=True, primary=True)
    page = who.owner.post("/account/email", {"email": "new@example.org", "action_add": ""}, follow=True)
    assert "new@example.org" in page.content.decode()
    people.owner.refresh_from_db()
    assert people.owner.email == "ada@example.org"
    link = re.search(r"http://testserver(/account/email/confirm/\S+)", mail.outbox[-1].body)
    assert link is not None
    assert "new@example.org not confirmed yet" in who.owner.get("/account").content.decode()
    assert "becomes the address of ada" in who.owner.get(link[1]).content.decode()
    who.owner.post(link[1])
    people.owner.refresh_from_db()
    assert people.owner.email == "new@example.org"
    assert log_in(Client(), "new@example.org") == "/"


def test_without_a_mail_server_no_link_is_made_and_the_page_names_the_administrator(settings: Settings) -> None:
    settings.ECHOSCOPE_MAIL = False
    page = " ".join(Client().get("/account/password/forgotten").content.decode().split())
    assert "python manage.py changepassword NAME" in page
    assert "Send the link" not in page
    done = Client().post("/account/password/forgotten", {"email": "Ada@example.org"}, follow=True)
    assert "manage.py changepassword NAME" in done.content.decode()
    assert mail.outbox == []


def test_pages_state_when_the_site_sends_no_mail(who: Visitors, settings: Settings) -> None:
    notice = "E-mail is not configured on this site"
    for address in ("/account/password/forgotten", "/account/email"):
        assert notice in " ".join(who.owner.get(address).content.decode().split())
    settings.ECHOSCOPE_MAIL = True
    for address in ("/account/password/forgotten", "/account/email"):
        assert notice not in " ".join(who.owner.get(address).content.decode().split())


@pytest.mark.parametrize(
    "path",
    [
        "/login",
        "/logout",
        "/signup",
        "/account",
        "/account/email",
        "/account/email/sent",
        "/account/password",
        "/account/password/forgotten",
        "/account/password/forgotten/sent",
        "/account/password/new/abc-def",
        "/account/password/new/done",
        "/account/inactive",
        "/account/confirm",
        "/account/email/confirm/none",
        "/account/second-factor",
        "/account/second-factor/app",
        "/account/second-factor/passkeys/new",
        "/account/connections",
        "/account/connections/cancelled",
        "/account/connections/error",
    ],
)
def test_every_account_page_uses_site_templates_and_no_external_content(path: str, who: Visitors) -> None:
    for client in (who.viewer, Client()):
        response = client.get(path, follow=True)
        page = response.content.decode()
        assert response.status_code in (200, 401)
        assert contains(page, '<nav class="nav"')
        assert not re.search(r"<script(?![^>]*(src=|application/json))", page)
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=", page)
        assert not re.search(r'(src|href)="(https?:)?//', page.replace("http://testserver", ""))
