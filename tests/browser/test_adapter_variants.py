"""An environment of another package: found in the list, played by keyboard, launched from the form, watched."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect

import envs
from tests.browser.launching import SMALL

TAXI = next(variant for variant in envs.variants("Gymnasium") if variant.startswith("Taxi-"))


def test_a_variant_is_found_played_launched_and_watched(signed_in: Callable[..., Page]) -> None:
    page = signed_in()

    # found in the list of variants, and played with the number keys
    page.goto("/environments")
    adapter = page.locator("#Gymnasium")
    adapter.get_by_text(re.compile(r"All \d+ variants")).click()
    adapter.get_by_role("searchbox").fill("taxi")
    expect(adapter.locator("[data-variant]:visible")).to_have_count(1)
    expect(adapter.get_by_role("status")).to_contain_text("1 of ")
    adapter.get_by_role("link", name=TAXI).click()
    expect(page.get_by_role("heading", name=f"{TAXI} (Gymnasium)")).to_be_visible()
    expect(page.locator("#play-board .piece.player")).to_have_count(1, timeout=60_000)
    page.keyboard.press("1")
    expect(page.locator(".moves li")).to_have_text([re.compile("South")])

    # launched from the form: another variant brings its budgets
    page.goto("/runs/new?environment=Gymnasium&preset=sokoban-starpo_s-pocket")
    page.get_by_role("button", name="Open all").click()
    page.locator('[name="environment.settings.id"]').fill("Blackjack-v1")
    page.locator('[name="environment.settings.id"]').blur()
    expect(page.locator('[name="rollout.max_actions"]')).to_have_value("10")
    page.get_by_label("Variant of Gymnasium").fill(TAXI)
    page.get_by_role("button", name="Choose").click()
    page.wait_for_url(re.compile(f"id={TAXI}"))
    expect(page.locator('[name="rollout.max_actions"]')).to_have_value("200")
    page.get_by_role("button", name="Open all").click()
    small = SMALL | {"name": "A taxi", "iterations": "1", "evaluation.prompts": "2", "rollout.max_turns": "2"}
    for name, value in small.items():
        page.locator(f'[name="{name}"]').fill(value)
    page.get_by_role("button", name="Launch", exact=True).click()
    page.wait_for_url(re.compile(r"/runs/(?!new)\w+/$"))

    # its trajectories show the streets
    expect(page.locator(".state").first).to_have_attribute("data-state", "finished", timeout=240_000)
    page.goto(f"{page.url}trajectories")
    page.locator('a[href^="/t/"]').first.click()
    expect(page.locator(".board .piece.player").first).to_be_visible()
