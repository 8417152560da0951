"""Tools of the curves in a real browser: pins, the enlarged chart with its limits and metrics, means over seeds."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.test_curves import imported
from tests.running_product import LiveStack

pytestmark = pytest.mark.browser


def test_charts_are_pinned_enlarged_limited_combined_and_averaged(
    live_stack: LiveStack, signed_in: Callable[..., Page], tmp_path: Path
) -> None:
    first, second = (imported(live_stack, tmp_path / name, name, seed) for seed, name in enumerate(("one", "two"), 1))
    page = signed_in()
    page.goto(f"/runs/{first}/curves")
    overview = page.get_by_role("region", name="Overview")
    expect(overview.locator("[data-metric]")).to_have_count(4)
    expect(overview.locator('[data-metric="reward/mean"] canvas')).to_be_visible()
    pinned = page.get_by_role("region", name="Pinned")
    expect(pinned).to_be_hidden()
    page.locator('[data-section="policy"]').scroll_into_view_if_needed()
    page.get_by_role("button", name="Pin Policy gradient norm").click()
    expect(pinned.locator('[data-metric="policy/grad_norm"] canvas')).to_be_visible()

    plot = pinned.locator('[data-metric="policy/grad_norm"] [data-plot]')
    plot.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Policy gradient norm")
    expect(dialog.locator("canvas")).to_be_visible()
    dialog.get_by_label("Lowest value of the y axis").fill("2")
    dialog.get_by_label("Highest value of the y axis").fill("1")
    expect(dialog.get_by_role("alert")).to_have_text("The lowest value must be below the highest.")
    dialog.get_by_label("Lowest value of the y axis").fill("-1")
    expect(dialog.get_by_role("alert")).to_be_hidden()
    with page.expect_download() as drawing:
        dialog.get_by_role("button", name="SVG").click()
    text = Path(drawing.value.path()).read_text()
    assert "Policy gradient norm" in text
    assert "one" in text
    assert ">−1.0<" in text, "the axis begins at the limit"
    dialog.get_by_label("Add a metric").select_option("entropy/mean")
    dialog = page.get_by_role("dialog", name="Policy gradient norm · Entropy")
    dialog.get_by_label("An axis for each").check()
    expect(dialog.get_by_role("listitem")).to_have_text(["Policy gradient norm", "Entropy"])
    expect(page).to_have_url(re.compile(r"chart=policy%2Fgrad_norm%2Centropy%2Fmean&axes=own"))
    dialog.get_by_role("button", name="Pin", exact=True).click()
    expect(dialog.get_by_role("button", name="Unpin")).to_be_visible()

    page.reload()
    expect(page.get_by_role("dialog", name="Policy gradient norm · Entropy").locator("canvas")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page).not_to_have_url(re.compile("chart="))
    combined = pinned.locator("[data-metrics]")
    expect(combined.locator("canvas")).to_be_visible()
    expect(combined.get_by_role("listitem")).to_have_text(["Policy gradient norm", "Entropy"])
    combined.get_by_role("button", name="Pin Policy gradient norm · Entropy").click()
    pinned.get_by_role("button", name="Pin Policy gradient norm").click()
    expect(pinned).to_be_hidden()
    assert json.loads(page.evaluate("localStorage.getItem('curves')")) == {
        "pins": [],
        "limits": {"policy/grad_norm": {"low": -1, "high": 1}},
    }

    page.goto("/compare")
    page.get_by_role("link", name="Same configuration, other seeds").and_(page.locator(f'[href*="{first}"]')).click()
    expect(page).to_have_url(re.compile(rf"runs=.*{first}.*{second}"))
    page.goto(f"/compare?runs={first},{second}")  # without runs of a first try
    reward = page.locator('[data-metric="reward/mean"]')
    expect(reward.locator("[data-value]")).to_contain_text("·")
    page.get_by_label("Mean ± std over seeds").check()
    expect(page.get_by_text("A, B: mean ± std")).to_be_visible()
    expect(reward.locator("[data-value]")).not_to_contain_text("·")
    expect(page).to_have_url(re.compile("seeds=mean"))
