"""Turns of other trainers' runs in a real browser: what was sent, the same with and without scripts, in all widths."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, Page, expect
from pytest_django import Settings

import echoscope
from echoscope.importers.importing import import_files
from tests.browser.served import ORIGIN, serve, tables_beside_the_browser
from tests.webapp.conftest import People, people
from webapp.trajectories.models import Trajectory

__all__ = ["people", "tables_beside_the_browser"]

TABLE = "Planet   Moons\n  Tavi       2\n  Oro       11\n\nTavi has two moons, and Oro has eleven."
CODE = "for planet in planets:\n    print(planet, len(planet.moons))"
CALLS = [
    {"id": "c1", "function": {"name": "search", "arguments": json.dumps({"query": "moons of Tavi"})}},
    {"id": "c2", "function": {"name": "python", "arguments": json.dumps({"code": CODE, "timeout": 5})}},
]
CHAT: list[dict[str, Any]] = [
    {"role": "system", "content": "Answer questions about planets."},
    {"role": "user", "content": "How many moons have Tavi and Oro? Answer as a table."},
    {"role": "assistant", "content": "I look it up and count.", "tool_calls": CALLS},
    {"role": "tool", "tool_call_id": "c1", "content": "Tavi is the third planet. It has two moons."},
    {
        "role": "tool",
        "tool_call_id": "c2",
        "content": "",
        "error": {"message": "NameError: name 'planets' is not defined"},
    },
    {"role": "assistant", "content": f"<think>The second call failed, but I know Oro.</think>{TABLE}", "model": "m-7b"},
    {"role": "user", "content": "Thanks!"},
    {"role": "assistant", "content": "You are welcome."},
]


@pytest.fixture
def chat(transactional_db: None, people: People, tmp_path: Path, settings: Settings) -> Trajectory:
    settings.ECHOSCOPE_DATA_DIR = tmp_path / "data"
    settings.ALLOWED_HOSTS = ["*"]
    file = tmp_path / "chats.jsonl"
    record = {"messages": CHAT, "reward": 0.8, "task": "Planets", "judge": {"score": 4, "comment": "correct"}}
    file.write_text(json.dumps(record) + "\n")
    import_files([file], tmp_path / "recorded")
    call_command("import_journal", str(tmp_path / "recorded"), team=people.team.slug)
    return Trajectory.objects.get()


Context = Callable[..., BrowserContext]


@pytest.fixture
def context(people: People, browser: Browser) -> Iterator[Context]:
    """A browser context of the owner; a message of the console fails the test."""
    messages: list[str] = []
    contexts = []

    def make(**options: Any) -> BrowserContext:
        client = Client()
        client.force_login(people.owner)
        made = browser.new_context(**options)
        contexts.append(made)
        serve(made, client)
        made.on("console", lambda message: messages.append(message.text))
        return made

    yield make
    for made in contexts:
        made.close()
    assert messages == []


def texts(page: Page, selector: str) -> list[str]:
    """Texts within the turns; white space counts."""
    return [node.text_content() or "" for node in page.locator(f"[data-turns] {selector}").all()]


PARTS = (".thought", ".response-text", ".call-text", ".call-result", ".turn-state pre", "summary", ".problem")


@pytest.mark.parametrize(("width", "scheme"), [(1280, "dark"), (390, "light")], ids=["desktop", "phone"])
def test_turns_show_responses_calls_and_results_whole(
    width: int, scheme: Any, chat: Trajectory, context: Context
) -> None:
    made = context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = made.new_page()
    page.goto(f"{ORIGIN}/t/{chat.slug}")
    page.locator("html.ready").wait_for()
    expect(page.locator(".turn:visible")).to_have_count(3)  # a dialogue without anything to draw is shown whole
    expect(page.locator("[data-board]")).to_be_hidden()
    assert texts(page, ".response-text") == ["I look it up and count.", TABLE, "You are welcome."]
    assert texts(page, ".thought") == ["The second call failed, but I know Oro."]
    assert texts(page, ".call-text")[0] == "search(moons of Tavi)"
    assert texts(page, ".call.failed .call-result") == ["NameError: name 'planets' is not defined"]
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    expect(page.locator("[data-board]")).to_contain_text("How many moons have Tavi and Oro?")
    screenshot(page, f"recorded-call-{width}-{scheme}")
    page.keyboard.press("End")
    expect(page.locator("[data-board]")).to_contain_text("Thanks!")
    expect(page.locator("[data-position]")).to_contain_text("Turn 3 of 3 ·")
    page.keyboard.press("ArrowLeft")
    page.locator(".turn.current summary", has_text="More").click()
    expect(page.locator(".turn.current .turn-state pre").last).to_contain_text('"model": "m-7b"')
    screenshot(page, f"recorded-answer-{width}-{scheme}")


def test_scripts_draw_the_turns_as_the_server_does(chat: Trajectory, context: Context) -> None:
    found = []
    for scripts in (True, False):
        page = context(java_script_enabled=scripts).new_page()
        page.goto(f"{ORIGIN}/t/{chat.slug}")
        page.locator("html.ready" if scripts else "[data-turns]").wait_for()
        found.append({part: texts(page, part) for part in PARTS})
    assert found[0] == found[1]


def test_pages_of_a_phone_have_no_place_for_what_was_not_recorded(chat: Trajectory, context: Context) -> None:
    Trajectory.objects.filter(pk=chat.pk).update(status=Trajectory.Status.UNKNOWN)
    page = context(viewport={"width": 390, "height": 844}).new_page()
    page.goto(f"{ORIGIN}/runs/{chat.run.slug}/")
    page.locator(".wall-cells").wait_for()
    expect(page.locator("[data-outcome]")).to_contain_text("Ended after")
    expect(page.locator(".bar").first).to_be_hidden()
    assert page.locator(".chart:visible h3").all_text_contents() == ["Reward"]
    fits(page, "recorded-live")
    page.goto(f"{ORIGIN}/runs/{chat.run.slug}/trajectories")
    row = page.locator(".trajectories tbody tr").first
    expect(row).to_have_css("padding-left", "0px")
    fits(page, "recorded-explorer")
    page.goto(f"{ORIGIN}/t/{chat.slug}/prompt")
    expect(page.locator("[data-start]")).to_contain_text("How many moons have Tavi and Oro?")
    fits(page, "recorded-prompt")
    for tab in ("curves", "evaluation"):
        page.goto(f"{ORIGIN}/runs/{chat.run.slug}/{tab}")
        fits(page, f"recorded-{tab}")


def fits(page: Page, name: str) -> None:
    """No part of the page is wider than the window."""
    screenshot(page, name)
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_the_player_of_notebooks_shows_calls_and_results(tmp_path: Path, chat: Trajectory, context: Context) -> None:
    frame = echoscope.player(tmp_path / "recorded", trajectory=chat.key)
    page = context().new_page()
    page.set_content(frame.page or "")
    turn = page.locator("#turn")
    expect(turn).to_contain_text("I look it up and count.")
    expect(turn.locator("ul li")).to_have_count(2)
    expect(turn.locator("ul li.failed pre")).to_have_text("NameError: name 'planets' is not defined")
    page.locator("#scrub").press("End")
    expect(turn).to_contain_text("You are welcome.")
    screenshot(page, "recorded-notebook")


def screenshot(page: Page, name: str) -> None:
    """Into the folder SCREENSHOTS, to be looked at."""
    if folder := os.environ.get("SCREENSHOTS"):
        page.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=True)
