"""Journey of a researcher: clone a run with one change, compare, and cite the trajectories behind a number."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.browser


def test_a_run_is_cloned_compared_and_its_trajectories_cited(played: str, signed_in: Callable[..., Page]) -> None:
    page = signed_in()

    # one change
    page.goto(played)
    page.get_by_role("button", name="Actions", exact=True).click()
    page.get_by_role("link", name="Clone", exact=True).click()
    expect(page.get_by_role("heading", name="Clone of A newcomer's run")).to_be_visible()
    facts = page.locator("#launch-facts")
    expect(facts).to_contain_text("No changes from A newcomer's run")
    page.get_by_role("button", name="Open all").click()
    page.locator('[name="algorithm.clip_high"]').fill("0.2")
    expect(facts).to_contain_text("1 change from A newcomer's run")
    expect(facts.get_by_role("link", name="algorithm.clip_high")).to_be_visible()
    page.locator('[name="name"]').fill("Without clip-higher")
    expect(facts).to_contain_text("2 changes from A newcomer's run")
    page.get_by_role("button", name="Launch", exact=True).click()
    page.wait_for_url(re.compile(r"/runs/(?!new)\w+/$"))
    clone = page.url
    expect(page.locator(".state").first).to_have_attribute("data-state", "finished")

    # side by side
    page.get_by_role("button", name="Actions", exact=True).click()
    page.get_by_role("link", name="Compare with …").click()
    page.locator(f'input[name="runs"][value="{played.split("/")[2]}"]').check()  # others may bear the same name
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("heading", name="Compare 2 runs")).to_be_visible()
    differences = page.locator("#settings tbody tr:not(.group)")
    expect(differences).to_have_count(1)
    expect(differences).to_contain_text("0.28")
    reward = page.locator('[data-metric="reward/mean"]')
    reward.scroll_into_view_if_needed()  # charts are drawn when they come into view
    expect(reward.locator("canvas")).to_be_visible()
    expect(page.locator(".plays [data-play]")).to_have_count(2)

    # the trajectories behind a number
    page.goto(f"{clone}curves")
    plot = page.locator('[data-metric="reward/mean"] [data-plot]')
    expect(plot.locator("canvas")).to_be_visible()
    plot.focus()
    page.keyboard.press("End")
    expect(page.locator("[data-curve-words]")).to_contain_text("at 3")
    page.keyboard.press("Enter")
    large = page.get_by_role("dialog", name="Mean reward").locator("[data-plot]")
    expect(large.locator("canvas")).to_be_visible()
    large.focus()
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/trajectories\?iteration=3&split=train"))
    expect(page.locator("[data-facts]")).to_contain_text("8 found")
    page.get_by_role("link", name="Reward", exact=True).click()
    page.wait_for_url("**sort=-reward")
    page.locator("[data-row]").first.press("Enter")
    page.wait_for_url(re.compile(r"/t/\w+"))

    # to be cited
    page.keyboard.press("End")
    last = page.locator("[data-position]").inner_text()
    page.keyboard.press("c")
    expect(page.get_by_text("Link to this position copied")).to_be_visible()
    page.goto(page.evaluate("navigator.clipboard.readText()"))
    expect(page.locator("[data-position]")).to_have_text(last)
