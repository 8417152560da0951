"""Passkeys in a real browser, with a virtual device that keeps them."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.running_product import LiveStack

pytestmark = pytest.mark.browser

SECRET = "a long secret"
MAKE_A_PERSON = """
from webapp.teams.actions import do_create_user
from webapp.teams.models import Membership, Team
person = do_create_user("{name}", "{secret}")
Membership.objects.create(team=Team.objects.get(), user=person, role=Membership.Role.MEMBER)
"""
"""In the only team of the stack: with two, commands of other tests would have to name theirs."""


@pytest.fixture
def person(live_stack: LiveStack) -> str:
    name = f"keeper-{secrets.token_hex(3)}"
    live_stack.manage("shell", input=MAKE_A_PERSON.format(name=name, secret=SECRET))
    return name


def device(page: Page) -> None:
    """Connect a device to the page that keeps passkeys and recognises its owner."""
    session = page.context.new_cdp_session(page)
    session.send("WebAuthn.enable")
    options = {"protocol": "ctap2", "transport": "internal", "automaticPresenceSimulation": True}
    options |= {"hasResidentKey": True, "hasUserVerification": True, "isUserVerified": True}
    session.send("WebAuthn.addVirtualAuthenticator", {"options": options})


def give_password(page: Page, name: str) -> None:
    page.goto("/login")
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(SECRET)
    page.get_by_role("button", name="Log in").click()


def log_out(page: Page) -> None:
    page.goto("/account")
    page.get_by_role("main").get_by_role("button", name="Log out").click()
    page.wait_for_url(re.compile("/login"))


def test_a_passkey_is_added_and_logs_in_alone_and_after_the_password(
    person: str, new_context: Callable[..., BrowserContext]
) -> None:
    page = new_context().new_page()
    device(page)
    give_password(page, person)
    page.goto("/account/second-factor")
    page.get_by_role("link", name="Add one").click()
    page.get_by_label("Password").fill(SECRET)
    page.get_by_role("button", name="Continue").click()
    page.get_by_role("button", name="Add").click()
    expect(page.get_by_role("heading", name="Your recovery codes")).to_be_visible()

    log_out(page)
    page.get_by_role("button", name="Use a passkey").click()
    expect(page.get_by_role("heading", name="Runs", exact=True)).to_be_visible()

    log_out(page)
    give_password(page, person)
    expect(page.get_by_role("heading", name="Your second factor")).to_be_visible()
    page.get_by_role("button", name="Use a passkey or security key").click()
    expect(page.get_by_role("heading", name="Runs", exact=True)).to_be_visible()

    stranger = new_context().new_page()
    device(stranger)  # another one, without the passkey
    give_password(stranger, person)
    stranger.get_by_role("button", name="Use a passkey or security key").click()
    expect(stranger.get_by_text("The passkey was not used")).to_be_visible()
    stranger.goto("/account")
    expect(stranger).to_have_url(re.compile("/login"))
