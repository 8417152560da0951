"""Command palette, shortcuts, the bell and “Alert me”, on the running product."""

from __future__ import annotations

import re
import secrets
import textwrap
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.running_product import LiveStack, wait_for

pytestmark = pytest.mark.browser

NOTIFY = """
    from webapp.core.publisher import publisher
    from webapp.notifications.actions import do_notify
    from webapp.notifications.models import Notification
    from webapp.teams.models import User

    user = User.objects.order_by("pk").first()
    _ = do_notify([Notification(user=user, kind="failed", key=f"{key}{{n}}", title=title, message="Out of memory.",
                                path="/workers") for n, title in enumerate(["Worker lost", "Run failed"])])
    publisher().flush()
"""
RECORD = """
    window.shown = [];
    window.Notification = class extends EventTarget {
      static permission = "default";
      static requestPermission() { this.permission = "granted"; return Promise.resolve("granted"); }
      constructor(title, options) { super(); window.shown.push(`${title} ${options.body}`); }
    };
    window.inboxSockets = 0;
    window.WebSocket = class extends WebSocket {
      constructor(url, ...others) {
        super(url, ...others);
        if (String(url).includes("/ws/inbox/")) window.inboxSockets += 1;
      }
    };
"""


def test_pages_and_actions_are_reached_by_keyboard_alone(signed_in: Callable[..., Page], played: str) -> None:
    page = signed_in()
    page.goto(played)
    page.keyboard.press("Control+k")
    field = page.get_by_role("combobox", name="Search pages, runs and actions")
    expect(field).to_be_focused()
    expect(page.get_by_role("option", name="Clone")).to_be_visible()
    page.keyboard.type("sokoban finished")
    expect(page.get_by_role("group", name="Runs").get_by_role("option").first).to_contain_text("Finished")
    field.fill("work")
    option = page.get_by_role("option", name="Workers")
    expect(option).to_have_attribute("aria-selected", "true")
    expect(field).to_have_attribute("aria-activedescendant", str(option.get_attribute("id")))
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/workers$"))  # and until its scripts listen to keys
    page.keyboard.press("g")
    with page.expect_event("load"):
        page.keyboard.press("r")
    expect(page.get_by_role("heading", name="Runs", exact=True)).to_be_visible()
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(dialog).to_contain_text("compare the selected runs")
    expect(dialog).to_contain_text("Inbox")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()


def test_two_pages_share_a_socket_and_show_what_arrives(signed_in: Callable[..., Page], live_stack: LiveStack) -> None:
    page = signed_in()
    page.context.add_init_script(textwrap.dedent(RECORD))
    other = page.context.new_page()
    page.goto("/inbox")
    page.get_by_role("button", name="Turn on").click()
    expect(page.get_by_text("On in this browser.")).to_be_visible()
    other.goto("/environments")
    cursor = "Object.keys(localStorage).some((key) => key.startsWith('echoscope.inbox.'))"
    wait_for(lambda: page.evaluate(cursor), "a connected page")
    live_stack.manage("shell", input=textwrap.dedent(NOTIFY.format(key=f"browser test {secrets.token_hex(4)} ")))
    for each in (page, other):
        expect(each.get_by_role("link", name=re.compile(r"^Inbox, \d+ unread$"))).to_be_visible()
    opened = [each.evaluate("window.inboxSockets") > 0 for each in (page, other)]
    assert sum(opened) == 1, opened
    wait_for(lambda: page.evaluate("window.shown.includes('Run failed Out of memory.')"), "a notification")
    page.get_by_role("link", name="Show").click()
    page.get_by_role("link", name="Run failed").first.click()
    expect(page.get_by_role("heading", name="Workers", exact=True)).to_be_visible()
    page.goto("/inbox")
    page.get_by_role("button", name="Mark all as read").click()
    expect(other.get_by_role("link", name="Inbox", exact=True)).to_be_visible()


def test_alert_me_is_one_click_and_the_log_lists_what_happened(signed_in: Callable[..., Page], played: str) -> None:
    page = signed_in()
    page.goto(f"{played.rstrip('/')}/log")
    expect(page.get_by_text("Iteration 1 done")).to_be_visible()
    page.get_by_label("errors", exact=True).check()
    expect(page.get_by_text("Iteration 1 done")).to_be_hidden()
    page.get_by_role("button", name="Actions", exact=True).click()
    button = page.locator("[data-alert-me] button")
    expect(button).to_have_text("Alerts on")
    button.click()
    expect(button).to_have_text("Alert me")
    expect(button).to_be_focused()
    button.click()
    expect(button).to_have_attribute("aria-pressed", "true")
