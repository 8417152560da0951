"""Player with web pages of a shop in a real browser: static files and one played trajectory, no server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

import envs
from tests.browser.static_pages import go, static_pages


def played() -> dict[str, Any]:
    """Page data of a trajectory: one needless action, then the solver's."""
    env = envs.make("WebShop")
    env.reset(seed=9)
    board, hint = env.board().model_dump(exclude_none=True), env.hint().model_dump()
    turns: list[dict[str, Any]] = []
    over = False
    while not over:
        advice = env.hint()
        assert advice is not None
        action, state = advice.actions[0] if turns else "click[nowhere]", env.render()
        _, reward, over, _, info = env.step(action)
        record = {"text": action, "name": action, "status": "illegal", "reward": reward}
        if info["valid"]:
            after = {"board": env.board().model_dump(exclude_none=True), "hint": env.hint().model_dump()}
            record |= {"status": "executed", "effective": info["effective"], **after}
        turns.append(
            {
                "turn": len(turns),
                "state": state,
                "response": "",
                "thought": "I look.",
                "answer": action,
                "format_valid": info["valid"],
                "actions": [record],
                "reward": reward,
                "terms": {},
                "tokens": 9,
                "truncated": False,
                "entropy": 0.5,
                "logprob": -0.5,
            }
        )
    return {
        "id": "x",
        "slug": "x",
        "group": 0,
        "member": 0,
        "board": board,
        "hint": hint,
        "turns": turns,
        "success": True,
        "end": "terminated",
        "total_reward": 1.0,
        "lost_at": None,
    }


@pytest.fixture(params=[(1100, "light"), (1100, "dark"), (390, "light")], ids=["light", "dark", "phone"])
def page(request: pytest.FixtureRequest, browser: Browser) -> Iterator[Page]:
    with static_pages(browser, request.param[0], 760, request.param[1]) as pages:
        yield pages.open_player(played())


def test_pages_show_the_action_taken_and_the_best_action(page: Page) -> None:
    board = page.locator(".page-board")
    expect(board.locator(".page-title")).to_have_text("Search the shop")
    expect(board.locator(".page-search.advised .page-words")).not_to_be_empty()

    go(page, 1)  # the action that no page offers
    expect(board.locator(".page-title")).to_have_text("Search the shop")
    expect(board.locator(".page-last")).to_have_count(0)

    go(page, 3)
    expect(board.locator(".page-title")).to_have_text(re.compile(r"Page 1, \d+ found"))
    expect(board.locator(".page-last")).to_have_text(re.compile(r"^search\["))
    advised = board.locator(".page-item.advised")
    expect(advised).to_have_count(1)
    expect(advised).to_be_in_viewport()
    assert "to go, next click[" in page.locator("[data-advice]").inner_text()

    go(page, 7)
    expect(board.locator(".page-item.chosen.last")).to_have_count(1)
    page.get_by_label("Solver advice").uncheck()
    expect(board.locator(".advised")).to_have_count(0)

    go(page, 10_000)
    expect(board.locator(".page-title")).to_have_text("Thank you for your order")
    expect(board).to_contain_text("Reward 1.00")


def test_page_text_is_legible_and_nothing_overflows(page: Page) -> None:
    for index in range(page.evaluate("window.player.positions.length")):
        go(page, index)
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        assert (
            page.evaluate(
                "(() => { const b = document.querySelector('.board'); return b.scrollWidth - b.clientWidth })()"
            )
            <= 0
        )
        expect(page.locator(".board")).to_have_role("group")
    heights = {page.evaluate("document.querySelector('.board').offsetHeight")}
    go(page, 0)
    assert heights == {page.evaluate("document.querySelector('.board').offsetHeight")}
