"""Launch of a small run through the form."""

from __future__ import annotations

import re

from playwright.sync_api import Page

SMALL = {
    "name": "A newcomer's run",
    "iterations": "3",
    "rollout.groups": "2",
    "rollout.group_size": "4",
    "optimizer.mini_batch_trajectories": "4",
    "evaluation.prompts": "8",
    "policy.threads": "1",
}
ENDLESS = "900"  # iterations of a run that a test cancels: on no machine does it end before


def cancel(page: Page) -> None:
    """Cancel the run whose page is open, through the menu and the dialog that confirms it."""
    page.get_by_role("button", name="Actions", exact=True).click()
    page.get_by_role("button", name="Cancel …").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the run").click()


def launch(page: Page, **changes: str) -> str:
    """Launch a small run from the form. Its address."""
    page.goto("/runs/new")
    page.get_by_role("link", name="Sokoban", exact=True).click()
    page.wait_for_url(re.compile("preset=sokoban"))
    page.get_by_role("button", name="Open all").click()
    for name, value in (SMALL | changes).items():
        page.locator(f'[name="{name}"]').fill(value)
    page.get_by_role("button", name="Launch", exact=True).click()
    page.wait_for_url(re.compile(r"/runs/(?!new)\w+/$"))
    return page.url
