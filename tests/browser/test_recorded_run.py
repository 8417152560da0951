"""Pages of a run of another trainer in a real browser: dashes for what was not sent, and where an attempt continues."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from django.core.management import call_command
from django.test import Client
from playwright.sync_api import Browser, Page, expect
from pytest_django import Settings

import echoscope
from tests.browser.served import ORIGIN, serve, tables_beside_the_browser
from tests.webapp.conftest import People, people
from webapp.runs.models import Run

__all__ = ["people", "tables_beside_the_browser"]

Scheme = Literal["light", "dark"]
LOOKS: tuple[tuple[str, Scheme, int], ...] = (("light", "light", 1280), ("dark", "dark", 1280), ("phone", "light", 390))
"""Name, colours and width of each screenshot."""


@pytest.fixture
def continued(transactional_db: None, people: People, tmp_path: Path, settings: Settings) -> Run:
    """A run that was recorded twice: its second attempt continues after iteration 12 of 15."""
    settings.ECHOSCOPE_DATA_DIR = tmp_path / "data"
    settings.ALLOWED_HOSTS = ["*"]
    folder = tmp_path / "recorded"
    for first, last in ((0, 15), (12, 20)):
        run = echoscope.init("GRPO on Wordle", folder=folder, from_iteration=first, environment="Wordle")
        for iteration in range(first + 1, last + 1):
            for member, attempt in enumerate(run.group(8, prompt="Guess the word.", iteration=iteration)):
                with attempt:
                    attempt.turn(state="_____", response="CRANE", reward=float(member * 3 < iteration))
                    attempt.finish(success=member * 3 < iteration)
            run.log({"my/loss": 1 / iteration})
    run.evaluation("Wordle", iteration=20, prompts=8, trajectories=8, successes=6, mean_reward=0.75)
    run.finish()
    call_command("import_journal", str(folder), team=people.team.slug)
    return Run.objects.get()


@pytest.fixture
def page(people: People, browser: Browser) -> Iterator[Page]:
    """A page of the owner; a message of the console fails the test."""
    messages: list[str] = []
    client = Client()
    client.force_login(people.owner)
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    serve(context, client)
    page = context.new_page()
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    yield page
    context.close()
    assert messages == []


def save_screenshot(page: Page, name: str) -> None:
    """Light, dark and at phone width, into the folder SCREENSHOTS, to be looked at."""
    folder = os.environ.get("SCREENSHOTS")
    if not folder:
        return
    usual = page.viewport_size
    for look, scheme, width in LOOKS:
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_timeout(300)
        page.screenshot(path=str(Path(folder) / f"{name}-{look}.png"), full_page=True)
    page.emulate_media(color_scheme="light")
    if usual:
        page.set_viewport_size(usual)


def test_pages_of_a_recorded_run_invent_nothing(continued: Run, page: Page) -> None:
    page.goto(f"{ORIGIN}/runs/{continued.slug}/trajectories")
    expect(page.locator("td.of-tokens").first).to_have_text("–")
    expect(page.locator("td.of-format").first).to_have_text("–")
    expect(page.locator(".run-facts")).to_contain_text("attempt 2, continued after iteration 12")
    save_screenshot(page, "explorer")
    page.goto(f"{ORIGIN}/runs/{continued.slug}/configuration")
    expect(page.get_by_role("heading", name="Export")).to_be_visible()
    expect(page.get_by_text("all events of the trainer")).to_have_count(0)
    save_screenshot(page, "configuration")
    page.goto(f"{ORIGIN}/runs/{continued.slug}/log")
    expect(page.get_by_text("Attempt 2 started, continues after iteration 12.")).to_be_visible()
    save_screenshot(page, "log")
    page.goto(f"{ORIGIN}/runs/{continued.slug}/evaluation")
    expect(page.locator("table").first).to_contain_text("75%")
    save_screenshot(page, "evaluation")
    page.goto(f"{ORIGIN}/runs/{continued.slug}/curves?x=tokens")
    axis = page.get_by_label("X axis")
    expect(axis).to_have_value("iteration")
    expect(axis.locator("option[value=tokens]")).to_be_disabled()
    expect(axis.locator("option[value=seconds]")).to_be_enabled()
    save_screenshot(page, "curves")


def test_the_live_page_judges_what_the_attempts_amount_to(continued: Run, page: Page) -> None:
    page.goto(f"{ORIGIN}/runs/{continued.slug}/")
    page.locator("html.ready").wait_for()
    save_screenshot(page, "live")
    expect(page.locator("body")).not_to_contain_text("Nothing to judge")
    page.goto(f"{ORIGIN}/compare?runs={continued.slug}&runs={continued.slug}")
    save_screenshot(page, "compare")
