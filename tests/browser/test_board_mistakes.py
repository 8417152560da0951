"""Mistakes on boards without cells in a real browser: what was chosen and what was better, in the player."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.static_pages import go, static_pages
from tests.webapp.trajectories import marked_boards

Open = Callable[[str], Page]


@pytest.fixture(params=["light", "dark"])
def open_player(request: pytest.FixtureRequest, browser: Browser) -> Iterator[Open]:
    """Opens the player at the last position of an attempt of marked_boards, its mistake."""
    with static_pages(browser, 1100, 760, request.param) as pages:

        def opened(name: str) -> Page:
            data = getattr(marked_boards, name)() | {"id": "x", "slug": "x", "group": 0, "member": 0}
            page = pages.open_player(data)
            go(page, 10_000)
            return page

        yield opened


def test_the_arm_that_was_pulled_has_the_mark_and_the_better_one_a_frame(open_player: Open) -> None:
    page = open_player("bandit")
    board = page.locator("[data-board]")
    expect(board.locator(".arm.mistaken.blunder b").first).to_have_text("Phoenix")
    expect(board.locator(".arm.mistaken .mistake-badge [aria-hidden]")).to_have_text("??")
    expect(board.locator(".arm.better b").first).to_have_text("Dragon")
    label = board.get_attribute("aria-label") or ""
    assert label.startswith("Bandit: ")
    assert label.endswith(". Blunder: Turn 1: Phoenix pays less on average. Dragon was the better pull.")
    go(page, 0)
    expect(board.locator(".mistaken, .better, .mistake-badge, .better-badge")).to_have_count(0)
    assert "Blunder" not in (board.get_attribute("aria-label") or "")
    go(page, 1)
    expect(board.locator(".mistake-badge")).to_have_count(1)


def test_a_page_shows_the_element_that_was_used_and_the_better_one(open_player: Open) -> None:
    page = open_player("shop")
    board = page.locator("[data-board]")
    expect(board.locator(".page-title")).not_to_have_text("Thank you for your order")
    expect(board.locator(".page-item.mistaken > span").first).to_have_text("Buy Now")
    expect(board.locator(".page-item.mistaken .mistake-badge")).to_contain_text("blunder")
    expect(board.locator(".page-item.better > span").first).to_have_text("burgundy")
    page.locator("[data-solver]").uncheck()
    expect(board.locator(".page-title")).to_have_text("Thank you for your order")
    expect(board.locator(".mistake-badge")).to_have_count(0)


def test_a_text_marks_the_wrong_answer_and_adds_a_right_one(open_player: Open) -> None:
    page = open_player("countdown")
    board = page.locator("[data-board]")
    expect(board.locator(".fault-line.blunder")).to_contain_text("77 + 50 + 86 = 213")
    expect(board.locator(".fault-line .mistake-badge")).to_contain_text("??")
    expect(board.locator(".better-note")).to_have_text("better 86 + 50 - 77")
    go(page, 0)
    expect(board.locator(".fault-line, .better-note")).to_have_count(0)
