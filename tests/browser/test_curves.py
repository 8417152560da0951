"""Curves in a real browser: drawing, zoom, keyboard, links to trajectories, comparison of runs."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

import echoscope
from tests.running_product import LiveStack
from tests.webapp import recorded_journal
from trainer.config.run import RunConfig

MANY = 600

pytestmark = pytest.mark.browser


def imported(stack: LiveStack, folder: Path, title: str, seed: int = 0) -> str:
    """Slug of an imported run of twelve iterations."""
    config = RunConfig(iterations=12, seed=seed)
    config.rollout.groups, config.rollout.group_size = 2, 2
    recorded_journal.write(folder, config, 12)
    return slug_of_import(stack, folder, title)


def slug_of_import(stack: LiveStack, folder: Path, title: str) -> str:
    """Slug of a run whose journal is in this folder."""
    output = stack.manage("import_journal", str(folder), "--title", title, "--user", stack.username)
    found = re.search(r"/runs/([-\w]+)/", output)
    assert found, output
    return found[1]


def test_curves_zoom_support_the_keyboard_and_link_to_trajectories(
    live_stack: LiveStack, signed_in: Callable[..., Page], tmp_path: Path
) -> None:
    first = imported(live_stack, tmp_path / "first", "First")
    second = imported(live_stack, tmp_path / "second", "Second")
    page = signed_in()

    page.goto(f"/runs/{first}/curves")
    card = page.locator('[data-metric="reward/mean"]')
    plot = card.locator("[data-plot]")
    expect(card.locator("canvas")).to_be_visible()
    plot.focus()
    page.keyboard.press("Home")
    expect(card.locator("[data-value]")).to_contain_text("at 1")
    page.keyboard.press("ArrowRight")
    expect(page.locator("[data-curve-words]")).to_contain_text("at 2")
    with page.expect_response(lambda response: "curves.json" in response.url and "from=" in response.url):
        page.keyboard.press("+")
    page.get_by_role("button", name="Reset zoom").click()
    page.get_by_label("Filter").fill("entropy")
    expect(card).to_be_hidden()
    expect(page.locator('[data-metric="entropy/mean"] canvas')).to_be_visible()
    expect(page).to_have_url(re.compile("metric=entropy"))
    page.get_by_label("X axis").select_option("tokens")
    entropy = page.locator('[data-metric="entropy/mean"][data-axis="tokens"] [data-plot]')
    entropy.focus()
    page.keyboard.press("End")
    expect(page.locator("[data-curve-words]")).to_contain_text("iteration 12")
    page.get_by_role("button", name="Enlarge Entropy").click()
    dialog = page.get_by_role("dialog", name="Entropy")
    expect(dialog.locator("canvas")).to_be_visible()
    with page.expect_download() as saved:
        dialog.get_by_role("button", name="PNG").click()
    assert Path(saved.value.path()).read_bytes().startswith(b"\x89PNG")
    with page.expect_download() as values:
        dialog.get_by_role("button", name="CSV").click()
    assert Path(values.value.path()).read_text().startswith("iteration,tokens,seconds,entropy/mean\n")
    dialog.locator("[data-plot]").focus()
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/trajectories\?iteration=12&split=train"))

    page.goto(f"/compare?runs={first},{second}")
    shown = page.locator('[data-metric="reward/mean"]')
    expect(shown.locator("canvas")).to_be_visible()
    expect(shown.locator("[data-value]")).to_contain_text("·")
    page.get_by_label("Show the curves of B").uncheck()
    expect(shown.locator("[data-value]")).not_to_contain_text("·")


def test_a_run_with_hundreds_of_metrics_builds_the_charts_in_view(
    live_stack: LiveStack, signed_in: Callable[..., Page], tmp_path: Path
) -> None:
    recorder = echoscope.init("Fine-tuning", folder=tmp_path)
    for step in (1, 2, 3):
        values = {f"{prefix}/layer_{at}": step * (at + 1) for prefix in ("grads", "weights") for at in range(MANY // 2)}
        recorder.log(values | {"weights/layer_1": 7.0, "loss": 1 / step}, iteration=step)
    recorder.finish()
    slug = slug_of_import(live_stack, tmp_path, "Fine-tuning")
    page = signed_in()
    page.goto(f"/runs/{slug}/curves")
    expect(page.get_by_role("region", name="Overview").locator('[data-metric="loss"] canvas')).to_be_visible()
    expect(page.locator('[data-section="weights"] [data-count]')).to_have_text(str(MANY // 2))
    expect(page.locator('[data-section="weights"] canvas')).to_have_count(0)

    page.locator('[data-section="weights"] > summary').click()
    first = page.locator('[data-metric="weights/layer_0"]')
    first.scroll_into_view_if_needed()
    expect(first.locator("canvas")).to_be_visible()
    expect(first.locator("[data-facts]")).to_have_text("1 to 3")
    flat = page.locator('[data-section="weights"] .flat-metrics')
    expect(flat.locator("summary")).to_contain_text("1 flat metric")
    expect(flat.locator("summary")).to_contain_text("weights/layer_1 7")
    assert page.locator("[data-curves] canvas").count() < 100
    page.locator('[data-section="weights"]').get_by_role("button", name="Show 24 more of 276").click()
    expect(page.locator('[data-metric="weights/layer_24"] [data-plot]')).to_be_focused()
    expect(page.locator('[data-metric="weights/layer_24"] canvas')).to_be_visible()

    page.get_by_label("Filter").fill("layer_7")
    expect(page.locator('[data-section="grads"] [data-count]')).to_have_text(f"11 of {MANY // 2}")
    expect(page.locator('[data-metric="grads/layer_77"] canvas')).to_be_visible()
    expect(first).to_be_hidden()
    page.get_by_label("Filter").fill("")
    expect(first).to_be_visible()
    expect(page.locator('[data-section="weights"] .chart').nth(1)).to_have_attribute("data-metric", "weights/layer_2")
