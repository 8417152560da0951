"""Teams in real browsers: an invitation is sent and accepted, a run is made public."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.patience import MILLISECONDS
from tests.running_product import LiveStack

pytestmark = pytest.mark.browser

MAKE_A_RUN = """
from trainer.config.run import RunConfig
from webapp.runs.models import Run
from webapp.teams.models import Team
team = Team.objects.order_by("pk").first()
author = team.memberships.first().user
run = Run.objects.create(
    team=team, author=author, title="For all readers", config=RunConfig().model_dump(mode="json"),
    environment="Sokoban", state="finished", iterations=4,
)
print("slug", run.slug)
"""


@pytest.fixture
def run_address(live_stack: LiveStack) -> str:
    found = re.search(r"slug (\w+)", live_stack.manage("shell", input=MAKE_A_RUN))
    assert found is not None
    return f"/runs/{found[1]}/"


def test_an_invited_user_signs_up_and_creates_a_token(
    signed_in: Callable[..., Page], new_context: Callable[..., BrowserContext]
) -> None:
    admin, name = signed_in(), f"newcomer-{secrets.token_hex(3)}"
    admin.locator(".nav .menu > summary").click()
    admin.get_by_role("link", name="Team", exact=True).click()
    admin.locator("#invitations select").select_option("viewer")
    admin.get_by_role("button", name="Invite", exact=True).click()
    admin.get_by_role("button", name="Copy").first.click()
    expect(admin.get_by_text("Link copied.")).to_be_visible()
    link = admin.evaluate("navigator.clipboard.readText()")

    newcomer = new_context(viewport={"width": 390, "height": 844}).new_page()
    newcomer.goto(link)
    newcomer.get_by_role("link", name="Create an account").click()
    newcomer.get_by_label("Name").fill(name)
    newcomer.get_by_label("Password", exact=True).fill("of my own making")
    newcomer.get_by_label("Password again").fill("of my own making")
    newcomer.get_by_role("button", name="Create account and join").click()
    expect(newcomer.get_by_role("heading", name="Runs", exact=True)).to_be_visible()
    newcomer.get_by_text(name, exact=True).click()
    newcomer.keyboard.press("Escape")
    expect(newcomer.get_by_role("link", name="Your account")).to_be_hidden()
    newcomer.keyboard.press("Enter")
    newcomer.locator(".menu-panel a").nth(1).click()
    newcomer.get_by_label("New token").fill("my script")
    newcomer.get_by_role("button", name="Create", exact=True).click()
    newcomer.get_by_role("button", name="Copy").click()
    token = newcomer.evaluate("navigator.clipboard.readText()")
    answer = newcomer.request.get("/api/runs", headers={"Authorization": f"Bearer {token}"})
    assert answer.ok, answer.text()
    json.loads(answer.text())


def test_a_run_is_made_public_watched_anonymously_and_made_private_again(
    run_address: str, signed_in: Callable[..., Page], new_context: Callable[..., BrowserContext]
) -> None:
    page = signed_in()
    page.goto(run_address)
    page.get_by_role("button", name="Actions", exact=True).click()
    page.locator("summary", has_text="Visible to").click()
    page.get_by_label("Anyone with the link").check()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Anyone with the link can now see this run")).to_be_visible()
    page.get_by_role("link", name="Curves").click()

    stranger = new_context().new_page()
    sockets: list[str] = []
    stranger.on("websocket", lambda socket: socket.on("framereceived", lambda data: sockets.append(str(data))))
    stranger.goto(run_address)
    expect(stranger.get_by_role("heading", name="For all readers")).to_be_visible()
    expect(stranger.locator("[data-connection]")).to_be_hidden()
    for _ in range(MILLISECONDS // 100):
        if any('"hello"' in frame for frame in sockets):
            break
        stranger.wait_for_timeout(100)
    else:
        pytest.fail("the live page of a stranger hears nothing")
    expect(stranger.get_by_role("link", name="Log in")).to_be_visible()

    page.locator(".nav .menu > summary").click()
    page.get_by_role("link", name="Team", exact=True).click()
    page.get_by_role("button", name="Stop sharing For all readers").click()
    expect(page.get_by_text("This run is now visible to the team only")).to_be_visible()
    stranger.goto(run_address)
    expect(stranger.get_by_role("heading", name="Log in")).to_be_visible()
