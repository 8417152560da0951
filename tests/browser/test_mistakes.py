"""Mistakes in a real browser: a lost attempt opens at its break, n and p step through them, links lead to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from playwright.sync_api import Browser, Page, expect
from pytest_django import Settings

from tests.browser.served import ORIGIN, serve, tables_beside_the_browser
from tests.browser.test_every_page import AXE, LOOK
from tests.webapp.conftest import People, people, run
from tests.webapp.explorer.scripted_run import write_story
from tests.webapp.trajectories.scripted_attempt import LOCKED, events, sokoban
from webapp.runs.models import Run
from webapp.trajectories.models import ShareLink, Trajectory

__all__ = ["people", "run", "tables_beside_the_browser"]

VERDICT = "Turn 2: Left locked the box in a corner. Up would have won in 5."


@pytest.fixture
def lost(transactional_db: None, people: People, run: Run, tmp_path: Path, settings: Settings) -> Trajectory:
    settings.ECHOSCOPE_DATA_DIR = tmp_path
    settings.ALLOWED_HOSTS = ["*"]
    write_story(run, list(events(sokoban(), LOCKED)))
    return Trajectory.objects.get(run=run)


def opened(browser: Browser, people: People, path: str, **options: Any) -> Page:
    client = Client()
    client.force_login(people.owner)
    context = browser.new_context(**options)
    serve(context, client)
    page = context.new_page()
    page.goto(f"{ORIGIN}{path}")
    page.locator("html.ready").wait_for()
    return page


def test_a_lost_attempt_opens_at_its_break_and_keys_and_links_lead_to_mistakes(
    lost: Trajectory, browser: Browser, people: People
) -> None:
    page = opened(browser, people, f"/t/{lost.slug}", viewport={"width": 1440, "height": 900})
    where, board = page.locator("[data-position]"), page.locator("[data-board]")
    expect(page.locator("[data-verdict]")).to_have_text(VERDICT)
    expect(where).to_contain_text("Turn 2 of 2, action 3 of 3")
    expect(board.locator(".mistake-glyph.blunder")).to_have_text("??")
    expect(board.locator(".mistake-frame.blunder")).to_have_attribute("x", "1.05")
    expect(board.locator(".better-move.above .shaft")).to_have_attribute("d", "M3.5 3.14L3.5 2.64")
    expect(page.locator(".chip.blunder")).to_contain_text("blunder: Left locked the box in a corner.")

    page.keyboard.press("p")
    expect(where).to_contain_text("Turn 2 of 2, action 2 of 3")
    expect(board.locator(".mistake-glyph.inaccuracy")).to_have_text("?!")
    page.keyboard.press("p")
    expect(where).to_contain_text("Turn 2 of 2, action 2 of 3")
    page.keyboard.press("Home")
    expect(board.locator(".mistake-glyph")).to_have_count(0)
    page.keyboard.press("n")
    page.keyboard.press("n")
    expect(where).to_contain_text("Turn 2 of 2, action 3 of 3")
    page.keyboard.press("v")
    expect(board.locator(".mistake-glyph")).to_have_count(0)
    page.keyboard.press("v")
    page.keyboard.press("Home")
    page.locator(".trajectory-head .outcome a").click()
    expect(where).to_contain_text("Turn 2 of 2, action 3 of 3")
    assert page.url.endswith("?turn=2&action=3")
    row = page.get_by_role("button", name="Turn 2")
    expect(row.locator("b")).to_have_text([" ?!", " ??"])
    page.locator(".turn.current .chip.inaccuracy").click()
    expect(where).to_contain_text("Turn 2 of 2, action 2 of 3")
    expect(page.locator("[data-verdict]")).to_have_text(
        "Turn 2: Down was a detour and cost 2 moves; 5 of the 6 left are needed now. Left was best."
    )
    page.keyboard.press("?")
    expect(page.locator("dialog[open]")).to_contain_text("next, previous mistake")
    page.context.close()


def test_an_address_with_a_position_and_autoplay_win_over_the_break(
    lost: Trajectory, browser: Browser, people: People
) -> None:
    page = opened(browser, people, f"/t/{lost.slug}?turn=1&action=1")
    expect(page.locator("[data-position]")).to_contain_text("Turn 1 of 2, action 1 of 2")
    link = ShareLink.objects.create(trajectory=lost)
    page.goto(f"{ORIGIN}/embed/{link.token}")
    expect(page.locator(".mistake-glyph.blunder")).to_have_text("??")
    page.goto(f"{ORIGIN}/embed/{link.token}?autoplay=1")
    expect(page.locator("[data-position]")).to_contain_text("Turn 1 of 2")
    page.context.close()


def test_the_stage_of_a_run_shows_the_verdict_as_a_link_to_the_break(
    lost: Trajectory, browser: Browser, people: People
) -> None:
    page = opened(browser, people, f"/runs/{lost.run.slug}/", viewport={"width": 1440, "height": 900})
    expect(page.locator("[data-verdict]")).to_have_text(VERDICT)
    page.locator("[data-verdict] a").click()
    expect(page.locator("[data-stage] [data-position]")).to_contain_text("Turn 2 of 2, action 3 of 3")
    expect(page.locator("[data-stage] .mistake-glyph.blunder")).to_be_visible()
    page.context.close()


@pytest.mark.parametrize(("theme", "width"), [("light", 390), ("dark", 1440)])
def test_axe_finds_nothing_at_the_break(
    lost: Trajectory, browser: Browser, people: People, theme: str, width: int
) -> None:
    page = opened(browser, people, f"/t/{lost.slug}", color_scheme=theme, viewport={"width": width, "height": 900})
    expect(page.locator(".mistake-glyph.blunder")).to_be_visible()
    page.evaluate(AXE.read_text(encoding="utf-8"))
    assert page.evaluate(LOOK) == []
    assert page.evaluate("document.documentElement.scrollWidth") == width
    page.context.close()


SPY = """() => {
  window.pitches = [];
  const make = AudioContext.prototype.createOscillator;
  AudioContext.prototype.createOscillator = function () {
    const tone = make.call(this);
    window.pitches.push(tone.frequency);
    return tone;
  };
}"""


def test_sounds_are_off_until_a_key_turns_them_on_and_differ_at_the_break(
    lost: Trajectory, browser: Browser, people: People
) -> None:
    page = opened(browser, people, f"/t/{lost.slug}?turn=2&action=1")
    page.evaluate(SPY)

    def pitches() -> list[float]:
        heard: list[float] = page.evaluate("window.pitches.splice(0).map((pitch) => pitch.value)")
        return heard

    page.keyboard.press("ArrowRight")
    assert pitches() == []
    page.keyboard.press("s")
    expect(page.locator("[data-sound]")).to_be_checked()
    (tap,) = pitches()
    page.keyboard.press("ArrowLeft")
    assert pitches() == [], "going back is silent"
    page.keyboard.press("ArrowRight")
    assert pitches() == [tap]
    page.keyboard.press("ArrowRight")
    (low,) = pitches()
    assert low < tap / 4
    page.reload()
    expect(page.locator("[data-sound]")).to_be_checked()
