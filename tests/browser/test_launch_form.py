"""Launch form in the browser: one change in three clicks, errors in sight, search, a group of runs; confirmations."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable

from playwright.sync_api import Page, expect


def _is_above_the_bar(page: Page, selector: str) -> bool:
    bottom = page.locator(selector).bounding_box()
    bar = page.locator(".launch-bar").bounding_box()
    assert bottom
    assert bar
    return bottom["y"] + bottom["height"] <= bar["y"]


def test_the_form_launches_one_change_and_then_a_group(signed_in: Callable[..., Page]) -> None:
    page = signed_in()
    small = {"rollout.groups": "2", "rollout.group_size": "4"}

    # an error is read at the field and in the bar, and the bar never covers it
    page.goto("/runs/new")
    page.get_by_role("button", name="Open all").click()
    field = page.locator('[name="checkpoint.keep"]')
    field.fill("none")
    error = "#f-checkpoint-keep-error"
    expect(page.locator(error)).to_have_text("must be a whole number of at least 1, not 'none'")
    expect(page.locator("#check")).to_contain_text("Keep must be a whole number of at least 1")
    assert _is_above_the_bar(page, error)
    expect(page.locator("#group-checkpoint [data-wrong]")).to_have_text("1 error")
    field.fill("2")
    expect(page.locator("#group-checkpoint [data-changed]")).to_have_text("1 changed")

    # settings without effect are found by the search only, with the reason
    hidden = page.locator('[name="lora.alpha"]')
    expect(hidden).to_be_hidden()
    page.get_by_role("searchbox", name="Search all settings").fill("lora")
    expect(hidden).to_be_visible()
    expect(page.locator('[data-setting="lora.alpha"]')).to_contain_text("No effect")

    # the ablation of the filter: two clicks and one field
    page.goto("/runs/new")
    for name, value in small.items():
        page.locator(f'[name="{name}"]').fill(value)
    page.locator('[name="algorithm.group_filter"]').select_option("none")
    expect(page.locator("#launch-facts")).to_contain_text("“Share of groups kept” = 0.5 is ignored")
    page.get_by_role("link", name="Bandit", exact=True).click()
    page.wait_for_url(re.compile("preset=bandit"))
    expect(page.locator('[name="rollout.group_size"]')).to_have_value("4")

    # both algorithms as one group
    page.locator('[name="iterations"]').fill("1")
    page.get_by_role("button", name="Both algorithms × 3 seeds").click()
    page.get_by_label("Seeds").select_option("1")
    page.get_by_label("Group name").fill(f"Two arms {secrets.token_hex(3)}")
    page.get_by_role("button", name="Launch 2 runs").click()
    page.wait_for_url(re.compile(r"group=Two"))
    expect(page.locator("[data-run-row]")).to_have_count(2)
    page.get_by_role("link", name="Compare all of its runs").click()
    expect(page).to_have_url(re.compile(r"/compare\?runs=\w+,\w+"))


def test_revoking_needs_a_confirmation(signed_in: Callable[..., Page]) -> None:
    page = signed_in()
    page.goto("/team")
    address = page.url
    page.get_by_placeholder("nightly sweep").fill("sweep")
    page.get_by_role("button", name="Create", exact=True).click()
    page.goto(address)
    revoke = page.get_by_role("button", name="Revoke sweep")
    revoke.click()
    page.get_by_role("dialog").get_by_role("button", name="Keep it").click()
    expect(revoke).to_be_focused()
    revoke.click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(page.get_by_text("sweep revoked.")).to_be_visible()
    expect(revoke).to_have_count(0)
