"""The recorded Echo Trap in a real browser: it plays by itself, by button, slider and keyboard, for a visitor."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from playwright.sync_api import Browser, Page, expect

from tests.browser.served import ORIGIN, serve, tables_beside_the_browser
from webapp.explorer.trap_replay import trap_replay

__all__ = ["tables_beside_the_browser"]
LENGTH = trap_replay().length


def opened(browser: Browser, path: str = "/echo-trap", **options: Any) -> Page:
    context = browser.new_context(**options)
    serve(context, Client())
    page = context.new_page()
    page.goto(f"{ORIGIN}{path}")
    page.locator("html.ready").wait_for()
    return page


def at(page: Page, iteration: int) -> None:
    expect(page.locator("[data-counter]")).to_have_text(f"iteration {iteration} of {LENGTH}")


def test_it_plays_by_itself_and_stops_where_it_is_told(transactional_db: None, browser: Browser) -> None:
    page = opened(browser, viewport={"width": 390, "height": 844})
    page.get_by_role("button", name="Pause").wait_for()
    expect(page.locator("[data-counter]")).not_to_have_text(f"iteration 1 of {LENGTH}")
    page.keyboard.press("End")
    at(page, LENGTH)
    starpo, starpo_s = page.locator("[data-run]").all()
    echoes = trap_replay().runs[0].endings(LENGTH)["I take Phoenix."]
    expect(starpo.locator("[data-count]")).to_have_text(str(echoes))
    expect(starpo.locator(".condition")).to_contain_text("Trapped since")
    expect(starpo_s.locator(".condition")).to_be_hidden()
    page.keyboard.press("Home")
    expect(starpo.locator(".condition")).to_be_hidden()
    page.keyboard.press("PageUp")
    page.keyboard.press("ArrowRight")
    at(page, 12)
    page.get_by_role("slider", name="Iteration").fill("40")
    at(page, 40)
    page.keyboard.press("Space")
    page.get_by_role("button", name="Pause").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.context.close()


def test_a_square_shows_its_attempt_and_stays_chosen(transactional_db: None, browser: Browser) -> None:
    page = opened(browser, "/embed/echo-trap?iteration=20&theme=dark")
    run = page.locator("[data-run]").first
    square = run.locator("[data-wall] .ending-2").first
    square.click()
    expect(run.locator("[data-thought]")).to_contain_text("I take Dragon.")
    expect(run.locator("[data-board] .pulled b")).to_have_text("Dragon")
    expect(run.locator("[data-wall] .read")).to_have_count(1)
    page.keyboard.press("ArrowRight")
    expect(run.locator("[data-wall] .read")).to_have_count(0)
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"
    page.context.close()


@pytest.mark.parametrize("path", ["/echo-trap", "/embed/echo-trap?autoplay=1"])
def test_reduced_motion_waits_for_the_button(transactional_db: None, browser: Browser, path: str) -> None:
    page = opened(browser, path, reduced_motion="reduce")
    page.get_by_role("button", name="Play", exact=True).wait_for()
    at(page, 1)
    page.context.close()


def test_without_scripts_it_shows_the_end(transactional_db: None, browser: Browser) -> None:
    context = browser.new_context(java_script_enabled=False)
    serve(context, Client())
    page = context.new_page()
    page.goto(f"{ORIGIN}/echo-trap")
    expect(page.locator("[data-run]").first).to_contain_text("Trapped")
    expect(page.locator("[data-run] svg.stream")).to_have_count(2)
    expect(page.get_by_role("slider")).to_be_hidden()
    context.close()
