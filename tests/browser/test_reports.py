"""A report in a real browser: written with its preview, read with its player and charts, on a phone too."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.running_product import LiveStack
from tests.webapp import recorded_journal
from trainer.config.run import RunConfig

pytestmark = pytest.mark.browser


@pytest.fixture
def run(live_stack: LiveStack, tmp_path: Path) -> str:
    """The slug of a run with five iterations of Sokoban."""
    config = RunConfig(iterations=5)
    config.rollout.groups = config.rollout.group_size = 2
    output = live_stack.manage("import_journal", str(recorded_journal.write(tmp_path / "journal", config, 5)))
    match = re.search(r"/runs/(\w+)/", output)
    assert match is not None, output
    return match[1]


def test_a_report_is_written_previewed_shared_and_read(
    run: str, signed_in: Callable[..., Page], new_context: Callable[..., BrowserContext]
) -> None:
    page = signed_in()
    page.goto(f"/runs/{run}/trajectories")
    trajectory = page.locator('a[href^="/t/"]').first.get_attribute("href")
    page.goto("/reports/new")
    page.get_by_label("Title").fill("Boxes in corners")
    body = page.get_by_label("Text, in Markdown")
    body.fill(f"It pushes **too early**.\n\n/runs/{run}/\n/runs/{run}/curves\n{trajectory}\n")
    preview = page.locator("#report-preview")
    expect(preview.locator("strong")).to_have_text("too early")
    expect(preview.locator("[data-chart] svg")).to_be_visible()
    expect(preview.locator(".run-table tbody tr")).to_have_count(1)
    expect(preview.frame_locator("iframe").locator(".board svg")).to_be_visible()

    preview.locator("iframe").evaluate("frame => { frame.contentWindow.kept = true; }")
    body.press("Control+Home")
    body.type("# Why\n\n")
    expect(preview.locator("h2")).to_have_text("Why")
    assert preview.locator("iframe").evaluate("frame => frame.contentWindow.kept"), "the player was not loaded again"

    page.get_by_label("Who can read it").select_option("link")
    body.press("Control+Enter")
    expect(page.get_by_role("heading", name="Boxes in corners")).to_be_visible()
    page.locator("[data-chart] svg").first.hover()
    expect(page.locator("[data-where]").first).to_contain_text("iteration")
    expect(page.frame_locator("iframe").locator(".board svg")).to_be_visible()
    expect(page.get_by_text("Readers without an account do not see 3 embeds")).to_be_visible()

    phone = new_context(viewport={"width": 390, "height": 844}).new_page()
    phone.goto(page.url)
    expect(phone.get_by_text("Not visible to you")).to_have_count(3)
    assert phone.evaluate("document.documentElement.scrollWidth") == 390
