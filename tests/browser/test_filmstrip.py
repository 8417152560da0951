"""The filmstrip in a real browser: boards move in step, by keyboard too, and nothing plays where motion is reduced."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from playwright.sync_api import Browser, Page, expect
from pytest_django import Settings

from envs.base import GridBoard
from tests.browser.served import ORIGIN, serve, tables_beside_the_browser
from tests.browser.test_every_page import AXE, LOOK
from tests.webapp.conftest import People, people, run
from tests.webapp.explorer.scripted_run import write_story
from tests.webapp.journal_builder import end, group, started, turn
from trainer.journal import events as journal
from webapp.runs.models import Run
from webapp.trajectories.models import Trajectory

__all__ = ["people", "run", "tables_beside_the_browser"]

WALKS = {0: "Down", 8: "Left", 16: "Right", 24: "Right Right"}
"""Actions at each evaluation: at iteration 24 the box arrives."""
STATES = {
    "": ["######", "#@$ .#", "#    #", "######"],
    "Down": ["######", "# $ .#", "#@   #", "######"],
    "Left": ["######", "#@$ .#", "#    #", "######"],
    "Right": ["######", "# @$.#", "#    #", "######"],
    "Right Right": ["######", "#  @*#", "#    #", "######"],
}


def board(moves: str) -> GridBoard:
    return GridBoard(theme="sokoban", rows=STATES[moves])


def events() -> Iterator[journal.Event]:
    """An initial state evaluated four times."""
    yield started()
    for iteration, moves in WALKS.items():
        key, names = f"fixed-{iteration}", moves.split()
        yield group(iteration, 0, [key], "eval").model_copy(update={"board": board("")})
        records = [
            journal.ActionRecord(
                text=name, status="executed", name=name, reward=-0.1, board=board(" ".join(names[: number + 1]))
            )
            for number, name in enumerate(names)
        ]
        yield turn(key, 0).model_copy(update={"actions": records})
        yield end(key, 1, success=iteration == 24)


@pytest.fixture
def address(transactional_db: None, people: People, run: Run, tmp_path: Path, settings: Settings) -> str:
    settings.ECHOSCOPE_DATA_DIR = tmp_path
    settings.ALLOWED_HOSTS = ["*"]
    write_story(run, list(events()))
    return f"{ORIGIN}/t/{Trajectory.objects.get(run=run, key='fixed-24').slug}/prompt"


def opened(browser: Browser, people: People, address: str, **options: Any) -> Page:
    client = Client()
    client.force_login(people.owner)
    context = browser.new_context(**options)
    serve(context, client)
    page = context.new_page()
    page.goto(address)
    page.locator("html.ready").wait_for()
    return page


def test_all_boards_move_in_step_by_button_and_keyboard(address: str, browser: Browser, people: People) -> None:
    page = opened(browser, people, address, viewport={"width": 390, "height": 844})
    where, walked = page.locator("[data-where]"), page.locator(".film .walked")
    expect(where).to_have_text("Whole paths, up to 2 actions")
    ends = [path.get_attribute("d") for path in walked.all()]
    assert ends == ["M1.5 1.5L1.5 2.5", "", "M1.5 1.5L2.5 1.5", "M1.5 1.5L2.5 1.5L3.5 1.5"]
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.keyboard.press("Home")
    assert [path.get_attribute("d") for path in walked.all()] == [""] * 4
    page.keyboard.press("ArrowRight")
    expect(where).to_have_text("After action 1 of up to 2")
    page.get_by_role("button", name="Play", exact=True).click()
    expect(where).to_have_text("Whole paths, up to 2 actions")
    expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()
    page.get_by_role("link", name="Iteration 8").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/t/*")
    assert page.locator("[data-player]").count() == 1
    page.context.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_reduced_motion_shows_stills_and_axe_finds_nothing(
    address: str, browser: Browser, people: People, theme: str
) -> None:
    page = opened(browser, people, address, color_scheme=theme, reduced_motion="reduce")
    expect(page.get_by_role("button", name="Play", exact=True)).to_be_hidden()
    page.keyboard.press("Space")
    expect(page.locator("[data-where]")).to_have_text("Whole paths, up to 2 actions")
    page.evaluate(AXE.read_text(encoding="utf-8"))
    assert page.evaluate(LOOK) == []
    page.context.close()


def test_without_scripts_there_is_one_picture(address: str, browser: Browser, people: People) -> None:
    client = Client()
    client.force_login(people.owner)
    context = browser.new_context(java_script_enabled=False)
    serve(context, client)
    page = context.new_page()
    page.goto(address)
    picture = page.locator(".film noscript img, .film img.film-picture")
    expect(picture).to_be_visible()
    expect(page.locator(".film-first")).to_have_text("first success")
    context.close()
