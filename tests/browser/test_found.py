"""Explorer in a browser: from a way to fail to the fatal move, brushed rewards, a walk through a list, saved views."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.test_explorer import SET_UP
from tests.running_product import LiveStack

pytestmark = pytest.mark.browser
FINISHED = 'write_story(run, story()[:-40])\nRun.objects.filter(pk=run.pk).update(state="finished")'


def found(page: Page) -> int:
    return int((page.locator("[data-facts]").text_content() or "").split(" found")[0].replace(",", ""))


def test_a_researcher_gets_from_a_way_to_fail_to_the_move_and_through_all_of_them(
    live_stack: LiveStack, signed_in: Callable[..., Page]
) -> None:
    code = SET_UP.replace("write_story(run, story()[:-40])", FINISHED)
    slug = live_stack.manage("shell", input=code).split("slug=")[1].split()[0]
    page = signed_in()
    page.goto(f"/runs/{slug}/")

    # "I heard it fails in corners": three clicks to the fatal move
    page.get_by_role("link", name="Attempts", exact=True).click()
    facet = page.get_by_label("How it ended").get_by_role("link", name="Box in a corner")
    number = int((facet.locator(".number").text_content() or "").strip())
    facet.click()
    page.wait_for_url("**/trajectories?reason=box_corner")
    expect(page.locator("[data-facts]")).to_contain_text(f"{number} found")
    expect(page.locator("tbody .mini")).to_have_count(number)
    page.locator("[data-row]").first.click()
    expect(page.locator("[data-position]")).to_contain_text("Turn 1 of")
    expect(page.locator("[data-position]")).to_contain_text("action 1 of")
    expect(page.get_by_text("the box is in a corner").first).to_be_visible()

    # on within what was found, and back
    expect(page.locator(".found-number")).to_contain_text(f"1 of {number}")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("]")
    expect(page.locator(".found-number")).to_contain_text(f"2 of {number}")
    page.keyboard.press("[")
    expect(page.locator(".found-number")).to_contain_text(f"1 of {number}")
    page.keyboard.press("c")
    assert "found" not in page.evaluate("navigator.clipboard.readText()")
    page.locator(".found-number").click()
    page.wait_for_url("**/trajectories?reason=box_corner")

    # the same from the search
    page.goto(f"/runs/{slug}/trajectories")
    page.wait_for_selector("html.explorer-ready")
    page.get_by_role("searchbox").fill("cornered")
    page.get_by_text("Attempts that ended like this").get_by_role("link", name="Box in a corner").click()
    expect(page.locator("[data-facts]")).to_contain_text(f"{number} found")

    # rewards by keyboard and by mouse
    page.goto(f"/runs/{slug}/trajectories")
    page.wait_for_selector("html.explorer-ready")
    everything = found(page)
    low = page.get_by_label("Reward, from", exact=True)
    low.focus()
    low.press("End")
    page.wait_for_url(re.compile("reward_min="))
    expect(page.locator("[data-facts]")).not_to_contain_text(f"{everything} found")
    assert found(page) > 0
    expect(low).to_be_focused()
    low.press("Home")
    expect(page.locator("[data-facts]")).to_contain_text(f"{everything} found")
    box = page.locator("[data-bars]").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 1, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 3, box["y"] + 20)
    page.mouse.up()
    page.wait_for_url(re.compile("reward_max="))
    expect(page.locator("#reward_max")).not_to_have_value("")

    # a view with a hidden column
    page.get_by_text("Columns", exact=True).click()
    page.locator(".found-tools").get_by_role("link", name="Tokens").click()
    page.wait_for_url(re.compile("hide=tokens"))
    query = page.url.split("?")[1]
    page.get_by_text("Views", exact=True).click()
    page.get_by_label("Save this view as").fill("Low rewards")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("Saved as “Low rewards”")).to_be_visible()
    page.goto(f"/runs/{slug}/trajectories")
    page.get_by_text("Views", exact=True).click()
    page.get_by_role("link", name="Low rewards").click()
    page.wait_for_url(f"**/trajectories?{query}")
    expect(page.locator("td.of-tokens").first).to_be_hidden()
    page.get_by_text("Views", exact=True).click()
    page.get_by_role("link", name="Manage views").click()
    page.get_by_role("button", name="Delete Low rewards").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("Deleted “Low rewards”")).to_be_visible()

    # what was found, as a file
    page.goto(f"/runs/{slug}/trajectories?reason=box_corner")
    page.get_by_text("Export these", exact=True).click()
    with page.expect_download() as download:
        page.get_by_role("link", name="JSON lines").click()
    assert len(download.value.path().read_text().splitlines()) == number
