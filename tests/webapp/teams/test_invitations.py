"""Invitations: single use for a week; with or without an account, or by single sign-on."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from allauth.account.models import EmailAddress
from django.core import mail
from django.core.cache import cache
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from tests.webapp.conftest import People
from tests.webapp.fragments import contains
from tests.webapp.page_requests import Visitors, who
from tests.webapp.teams.identity_provider import Provider, running
from webapp.teams.actions import TeamRefused, do_accept_invitation, do_create_user, do_invite, do_revoke_invitation
from webapp.teams.models import Invitation, Membership, User

__all__ = ["who"]

MEMBER, VIEWER = Membership.Role.MEMBER, Membership.Role.VIEWER
FORM = {"username": "eve", "email": "", "password1": "long enough 1", "password2": "long enough 1"}


@pytest.fixture(autouse=True)
def _no_limits_of_other_tests(db: None) -> None:
    cache.clear()


@pytest.fixture
def invitation(people: People) -> Invitation:
    return do_invite(people.team, people.owner, MEMBER)


@pytest.fixture
def provider(settings: Settings) -> Iterator[Provider]:
    with running() as found:
        settings.SOCIALACCOUNT_PROVIDERS = {
            "openid_connect": {
                "OAUTH_PKCE_ENABLED": True,
                "APPS": [
                    {
                        "provider_id": "oidc",
                        "name": "Example",
                        "client_id": "echoscope",
                        "secret": "hush",
                        "settings": {"server_url": found.issuer},
                    }
                ],
            }
        }
        yield found


def role_of(people: People, name: str) -> str | None:
    return people.team.memberships.filter(user__username=name).values_list("role", flat=True).first()


def test_a_new_user_signs_up_by_link_and_joins_the_team(invitation: Invitation, people: People) -> None:
    client = Client()
    page = client.get(f"/invitations/{invitation.token}").content.decode()
    assert "Join Agents" in page
    assert contains(page, "as <b>member</b>")
    assert contains(client.get("/signup").content.decode(), "to join <b>Agents</b> as member")
    assert client.post("/signup", FORM)["Location"] == "/"
    assert role_of(people, "eve") == "member"
    invitation.refresh_from_db()
    assert invitation.accepted_by == User.objects.get(username="eve")
    assert client.get(f"/team/{people.team.slug}").status_code == 200


def test_an_invitation_link_works_once(invitation: Invitation, people: People) -> None:
    first, second = Client(), Client()
    for client in (first, second):
        client.get(f"/invitations/{invitation.token}")
    first.post("/signup", FORM)
    late = second.post("/signup", FORM | {"username": "late"})
    assert "Accounts are by invitation" in late.content.decode()
    assert not User.objects.filter(username="late").exists()
    assert second.get(f"/invitations/{invitation.token}").status_code == 404


def test_a_second_user_of_the_link_gets_no_account(invitation: Invitation, people: People) -> None:
    """Both had the form open: account and membership are created atomically."""
    early, late = do_create_user("early"), do_create_user("late")
    do_accept_invitation(invitation, early)
    with pytest.raises(TeamRefused, match="already been used or revoked"):
        do_accept_invitation(invitation, late)
    assert role_of(people, "late") is None


@pytest.mark.parametrize("ending", ["expired", "revoked", "invented"])
def test_a_closed_invitation_link_has_advice(ending: str, invitation: Invitation, people: People) -> None:
    client = Client()
    token = invitation.token
    client.get(f"/invitations/{token}")
    match ending:
        case "expired":
            Invitation.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
        case "revoked":
            do_revoke_invitation(invitation)
        case "invented":
            token = "thereisnosuchinvitation"
            client = Client()
    answer = client.get(f"/invitations/{token}")
    assert answer.status_code == 404
    assert "Ask an admin of the team for a new one" in answer.content.decode()
    assert "Accounts are by invitation" in client.get("/signup").content.decode()
    client.post("/signup", FORM)
    assert not User.objects.filter(username="eve").exists()


def test_an_invitation_is_valid_for_a_week(invitation: Invitation) -> None:
    assert timedelta(days=6, hours=23) < invitation.expires_at - timezone.now() <= timedelta(days=7)


def test_an_existing_user_joins_with_their_account(invitation: Invitation, people: People, who: Visitors) -> None:
    address = f"/invitations/{invitation.token}"
    assert "Join as mallory" in who.outsider.get(address).content.decode()
    assert role_of(people, "mallory") is None, "looking is not joining"
    assert who.outsider.post(address)["Location"] == f"/team/{people.team.slug}"
    assert role_of(people, "mallory") == "member"


def test_a_member_keeps_their_role_and_does_not_use_up_the_link(
    invitation: Invitation, people: People, who: Visitors
) -> None:
    address = f"/invitations/{invitation.token}"
    assert "You are already in this team, as viewer" in who.viewer.get(address).content.decode()
    who.viewer.post(address)
    assert role_of(people, "grace") == "viewer"
    assert who.outsider.get(address).status_code == 200


def test_an_anonymous_post_adds_no_member(invitation: Invitation) -> None:
    before = Membership.objects.count()
    assert "Create an account" in Client().post(f"/invitations/{invitation.token}").content.decode()
    assert Membership.objects.count() == before


def test_admins_copy_and_revoke_a_link(people: People, who: Visitors) -> None:
    base = f"/team/{people.team.slug}/invitations"
    page = who.owner.post(base, {"role": "viewer"}, follow=True).content.decode()
    made = Invitation.objects.get()
    assert f"http://testserver/invitations/{made.token}" in page
    assert (made.role, made.author) == ("viewer", people.owner)
    assert who.viewer.post(f"{base}/{made.token}/revoke").status_code == 403
    assert who.outsider.post(f"{base}/{made.token}/revoke").status_code == 404
    who.owner.post(f"{base}/{made.token}/revoke")
    assert who.anonymous.get(f"/invitations/{made.token}").status_code == 404


def test_without_mail_an_email_invitation_is_refused_with_a_reason(people: People, who: Visitors) -> None:
    base = f"/team/{people.team.slug}/invitations"
    page = who.owner.post(base, {"role": "member", "email": "eve@example.org"}, follow=True).content.decode()
    assert "E-mail is not configured" in page
    assert not Invitation.objects.exists()


def test_an_invitation_by_mail_verifies_the_address(people: People, who: Visitors, settings: Settings) -> None:
    settings.ECHOSCOPE_MAIL = True
    base = f"/team/{people.team.slug}/invitations"
    page = who.owner.post(base, {"role": "member", "email": "eve@example.org"}, follow=True).content.decode()
    made = Invitation.objects.get()
    assert "Invitation sent to eve@example.org" in page
    assert made.token not in page.replace(f"{base}/{made.token}/revoke", ""), "only the mail carries the link"
    (message,) = mail.outbox
    assert message.to == ["eve@example.org"]
    link = re.search(r"http://testserver(/invitations/\S+)", message.body)
    assert link is not None
    client = Client()
    client.get(link[1])
    assert 'value="eve@example.org"' in client.get("/signup").content.decode()
    client.post("/signup", FORM | {"email": "eve@example.org"})
    assert EmailAddress.objects.get(user__username="eve").verified
    assert len(mail.outbox) == 1, "it needs no confirmation"


def test_an_address_other_than_the_invited_one_is_not_verified(people: People, settings: Settings) -> None:
    made = do_invite(people.team, people.owner, VIEWER, "eve@example.org")
    client = Client()
    client.get(f"/invitations/{made.token}")
    client.post("/signup", FORM | {"email": "victim@example.org"})
    assert not EmailAddress.objects.get(user__username="eve").verified


def test_a_failed_mail_creates_no_invitation(people: People, who: Visitors, settings: Settings) -> None:
    settings.ECHOSCOPE_MAIL = True
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 1  # no server on this port
    base = f"/team/{people.team.slug}/invitations"
    page = who.owner.post(base, {"role": "member", "email": "eve@example.org"}, follow=True).content.decode()
    assert "The e-mail could not be sent" in page
    assert not Invitation.objects.open(timezone.now()).exists()


def sign_in_with(provider: Provider, client: Client, next: str = "", process: str = "login") -> str:
    """Final redirect target of the single sign-on, or text of the page."""
    begun = client.get(f"/sso/oidc/login/?process={process}" + (f"&next={next}" if next else ""))
    parameters = parse_qs(urlsplit(begun["Location"]).query)
    assert begun["Location"].startswith(f"{provider.issuer}/authorize?")
    assert parameters["code_challenge_method"] == ["S256"]
    back = client.get(f"/sso/oidc/login/callback/?code=good&state={parameters['state'][0]}")
    return back.headers.get("Location", "") or html.unescape(back.content.decode())


def test_without_configuration_there_is_no_sso_button(who: Visitors) -> None:
    assert "/sso/" not in Client().get("/login").content.decode()
    assert Client().get("/sso/oidc/login/").status_code == 404


def test_single_sign_on_creates_accounts_by_invitation_only(
    provider: Provider, people: People, invitation: Invitation
) -> None:
    provider.person = {"sub": "77", "preferred_username": "eve", "email": "eve@example.org", "email_verified": True}
    assert "Log in with Example" in Client().get("/login").content.decode()
    assert "Accounts are by invitation" in sign_in_with(provider, Client())
    assert not User.objects.filter(username="eve").exists()
    client = Client()
    client.get(f"/invitations/{invitation.token}")
    assert sign_in_with(provider, client) == "/"
    assert role_of(people, "eve") == "member"
    assert provider.requests[-1]["code_verifier"]
    again = Client()
    assert sign_in_with(provider, again, next="/workers") == "/workers"
    assert again.get("/account").status_code == 200


def test_an_account_is_connected_by_its_owner_not_by_email_alone(
    provider: Provider, people: People, who: Visitors
) -> None:
    people.owner.email = "ada@example.org"
    people.owner.save()
    provider.person = {"sub": "1", "preferred_username": "ada", "email": "ada@example.org", "email_verified": True}
    assert "Accounts are by invitation" in sign_in_with(provider, Client())
    assert sign_in_with(provider, who.owner, next="/account", process="connect") == "/account"
    page = who.owner.get("/account", follow=True).content.decode()
    assert "Connected. You can log in with it from now on." in page
    client = Client()
    assert sign_in_with(provider, client) == "/"
    assert "ada" in client.get("/account").content.decode()


def test_a_provider_failure_is_explained(provider: Provider) -> None:
    client = Client()
    begun = client.get("/sso/oidc/login/?process=login")
    state = parse_qs(urlsplit(begun["Location"]).query)["state"][0]
    failed = client.get(f"/sso/oidc/login/callback/?code=bad&state={state}", follow=True)
    assert "Login failed" in failed.content.decode()
    cancelled = client.get("/sso/oidc/login/callback/?error=access_denied", follow=True)
    assert cancelled.status_code in (200, 401)
