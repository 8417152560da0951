"""Explorer in a browser: in-place filters, URL, Back button, keys, and new trajectories during a live run."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.running_product import LiveStack

pytestmark = pytest.mark.browser

SET_UP = """
from tests.webapp.explorer.scripted_run import story, write_story
from trainer.config.run import RunConfig
from webapp.runs.models import Run
from webapp.teams.models import Team
config = RunConfig(iterations=8).model_dump(mode="json")
run = Run.objects.create(team=Team.objects.first(), title="Told by a script", config=config, environment="Sokoban")
write_story(run, story()[:-40])
print("slug=" + run.slug)
"""
CONTINUE = """
from tests.webapp.explorer.scripted_run import story, write_story
from webapp.runs.models import Run
write_story(Run.objects.get(slug="{slug}"), story()[-40:])
"""
END = """
from webapp.runs.models import Run
Run.objects.filter(slug="{slug}").update(state="finished")
"""


def test_a_reader_filters_sorts_pages_and_sees_new_trajectories(
    live_stack: LiveStack, signed_in: Callable[..., Page]
) -> None:
    slug = live_stack.manage("shell", input=SET_UP).split("slug=")[1].split()[0]
    page = signed_in()
    page.goto(f"/runs/{slug}/trajectories")
    page.wait_for_selector("html.explorer-ready")
    facts, rows = page.locator("[data-facts]"), page.locator("[data-row]")

    page.get_by_label("Outcome").select_option("Solved")
    expect(facts).to_contain_text("100.0% solved")
    page.wait_for_url("**/trajectories?outcome=success")
    page.get_by_role("searchbox", name="Search thoughts").fill("corner")
    page.wait_for_url("**/trajectories?outcome=success&text=corner")
    expect(page.locator("mark").first).to_have_text("corner")
    expect(page.get_by_role("searchbox", name="Search thoughts")).to_be_focused()

    page.get_by_text("More filters").click()
    page.get_by_label("Turns, from").fill("many")
    page.get_by_label("Turns, from").press("Tab")
    expect(page.locator("#turns_min-error")).to_have_text("“many” is not a whole number, such as 12.")
    expect(page.get_by_label("Turns, from")).to_have_attribute("aria-invalid", "true")
    page.get_by_label("Turns, from").fill("")
    page.get_by_label("Turns, from").press("Tab")
    expect(page.locator("#turns_min-error")).to_be_empty()

    page.get_by_role("link", name="Reward", exact=True).click()
    page.wait_for_url("**sort=-reward")
    expect(page.locator("th[aria-sort=descending]")).to_contain_text("Reward")
    page.go_back()
    page.wait_for_url("**/trajectories?outcome=success&text=corner")
    expect(page.get_by_role("searchbox", name="Search thoughts")).to_have_value("corner")

    page.goto(f"/runs/{slug}/trajectories?split=train")
    page.wait_for_selector("html.explorer-ready")
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(rows.nth(1)).to_be_focused()
    page.keyboard.press("k")
    expect(rows.nth(0)).to_be_focused()

    before = int((facts.text_content() or "").split(" found")[0])
    live_stack.manage("shell", input=CONTINUE.format(slug=slug))
    offer = page.locator("[data-new]")
    expect(offer).to_be_visible()
    fresh = int((offer.text_content() or "").split(" new")[0])
    expect(facts).to_contain_text(f"{before + fresh} found")
    offer.click()
    expect(facts).to_contain_text(f"{before + fresh} found")
    expect(page.locator("[data-new]")).to_be_hidden()

    rows.nth(0).click()
    page.get_by_role("link", name="All about this puzzle").click()
    page.get_by_role("link", name="compare thoughts").first.click()
    expect(page.get_by_role("heading", name="Side by side")).to_be_visible()
    live_stack.manage("shell", input=END.format(slug=slug))


def test_the_attempt_of_a_row_is_shown_next_to_the_list_on_wide_screens(
    live_stack: LiveStack, signed_in: Callable[..., Page]
) -> None:
    slug = live_stack.manage("shell", input=SET_UP).split("slug=")[1].split()[0]
    page = signed_in(viewport={"width": 1440, "height": 900})
    page.goto(f"/runs/{slug}/trajectories?outcome=success")
    rows, pane = page.locator("a[data-row]"), page.get_by_role("complementary", name="Selected attempt")
    expect(pane.get_by_role("heading")).to_have_text(rows.nth(0).get_attribute("title") or "")
    expect(pane.locator("[data-board] svg")).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(pane.get_by_role("heading")).to_have_text(rows.nth(1).get_attribute("title") or "")
    page.keyboard.press("ArrowRight")
    expect(pane.get_by_role("slider")).to_have_value("1")
    rows.nth(2).locator("xpath=ancestor::tr").locator(".of-outcome").click()
    expect(pane.get_by_role("heading")).to_have_text(rows.nth(2).get_attribute("title") or "")
    page.set_viewport_size({"width": 1200, "height": 900})
    expect(pane).to_be_hidden()
    page.set_viewport_size({"width": 1440, "height": 900})

    page.keyboard.press("Enter")
    place = page.locator(".found-number")
    expect(place).to_contain_text("3 of ")
    page.get_by_role("link", name="Share", exact=True).click()
    page.get_by_role("button", name="Create link").click()
    expect(page.get_by_text("Link created.")).to_be_visible()
    expect(place).to_contain_text("3 of ")


def test_attempts_are_labelled_with_two_keys(live_stack: LiveStack, signed_in: Callable[..., Page]) -> None:
    slug = live_stack.manage("shell", input=SET_UP).split("slug=")[1].split()[0]
    page = signed_in(viewport={"width": 1440, "height": 900})
    page.goto(f"/runs/{slug}/trajectories")
    page.wait_for_selector("html.explorer-ready")
    page.keyboard.press("y")
    expect(page.get_by_role("button", name="Yes, right")).to_have_count(0)

    page.get_by_text("Views", exact=True).click()
    page.get_by_text("Scanners", exact=True).click()
    page.get_by_role("link", name="Broken format").click()
    panel, rows = page.get_by_role("region", name="Labels of Broken format"), page.locator(".trajectories tbody tr")
    expect(panel).to_contain_text("Not known: no attempt that it found is labelled")
    page.wait_for_selector("html.explorer-ready")
    page.keyboard.press("y")
    page.keyboard.press("n")
    expect(panel).to_contain_text("1 of 2 labelled are right, 1 false alarm")
    expect(rows.nth(0).get_by_role("button", name="Yes, right")).to_have_attribute("aria-pressed", "true")
    expect(rows.nth(1).get_by_role("button", name="No, not right")).to_have_attribute("aria-pressed", "true")
    expect(rows.nth(2).locator("a[data-row]")).to_be_focused()
    page.get_by_role("searchbox", name="Search thoughts").press_sequentially("yn")
    page.wait_for_url("**text=yn**")
    expect(panel).to_contain_text("1 of 2 labelled")
    page.go_back()
    rows.nth(1).get_by_role("button", name="No, not right").click()
    expect(panel).to_contain_text("1 of 1 labelled are right")

    page.get_by_role("link", name="Label attempts it did not find").click()
    sample = page.get_by_role("region", name="Labels of Broken format")
    expect(sample).to_contain_text("Not known: no attempt that it did not find is labelled")
    page.wait_for_selector("html.explorer-ready")
    page.keyboard.press("n")
    expect(sample).to_contain_text("0 of 1 labelled that it did not find")
    live_stack.manage("shell", input=END.format(slug=slug))
