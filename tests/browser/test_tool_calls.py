"""Player with calls of tools in a real browser: static files and one played trajectory, no server."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

import envs
from tests.browser.static_pages import static_pages

CODE = "total = sum(range(10))\nprint(total)"
ACTIONS = [
    ("I add the numbers.", "python(print(sum(range(10)))"),
    ("The bracket was missing.", f"python({CODE})"),
    ("All numbers " * 3, f"python(print('{'word ' * 60}'))"),
    ("The sum is 45.", "45"),
]


def played() -> dict[str, Any]:
    """Page data of a trajectory: a call that fails, two that succeed, the answer."""
    env = envs.make("ToolPython", {"max_calls": 5})
    env.reset(seed=1, options={"question": "What is the sum of the numbers from 0 to 9?", "answer": "45"})
    start: dict[str, Any] = {"board": env.board().model_dump(exclude_none=True), "hint": env.hint().model_dump()}
    turns: list[dict[str, Any]] = []
    for thought, action in ACTIONS:
        state = env.render()
        _, reward, *_, info = env.step(action)
        after = {"board": env.board().model_dump(exclude_none=True), "hint": env.hint().model_dump()}
        record = {"text": action, "name": action, "status": "executed", "reward": reward, "call": info.get("call")}
        turns.append(
            {
                "turn": len(turns),
                "state": state,
                "response": "",
                "thought": thought,
                "answer": action,
                "format_valid": True,
                "actions": [record | {"effective": info["effective"]} | after],
                "reward": reward,
                "terms": {},
                "tokens": 9,
                "truncated": False,
            }
        )
    outcome = {"success": True, "end": "terminated", "total_reward": 1.0, "lost_at": None}
    return {"id": "x", "slug": "x", "group": 0, "member": 0, **start, "turns": turns, **outcome}


@pytest.fixture(params=[(1100, "light"), (1100, "dark"), (390, "light")], ids=["light", "dark", "phone"])
def page(request: pytest.FixtureRequest, browser: Browser) -> Iterator[Page]:
    width, scheme = request.param
    with static_pages(browser, width, 900, scheme) as pages:
        shown = pages.open_player(played())
        yield shown
        if folder := os.environ.get("SCREENSHOTS"):
            shown.screenshot(path=str(Path(folder) / f"tools-{width}-{scheme}.png"), full_page=True)


def test_calls_are_shown_with_their_results_and_errors_are_marked(page: Page) -> None:
    calls = page.locator(".turn .call")
    expect(calls).to_have_count(3)
    expect(calls.nth(0)).to_have_class("call failed")
    expect(calls.nth(0).locator(".call-result")).to_have_text("Error: SyntaxError: '(' was never closed (line 1)")
    expect(calls.nth(1).locator(".call-text")).to_have_text(f"python({CODE})")
    expect(calls.nth(1).locator(".call-result")).to_have_text("45")
    chips = page.locator(".chip")
    expect(chips.nth(0)).to_contain_text("✗")
    expect(chips.nth(1)).to_have_text("python, executed; reward 0.0")
    expect(page.locator(".turn").nth(3).locator(".call")).to_have_count(0)


def test_the_keyboard_steps_through_calls_and_the_stage_shows_them(page: Page) -> None:
    board = page.locator("[data-board]")
    expect(board).not_to_contain_text("45")
    page.evaluate("window.player.take(1)")
    expect(board).to_contain_text("✗ python(")
    page.evaluate("window.player.take(3)")
    expect(board).to_contain_text("1 earlier call")
    page.evaluate("window.player.take(10_000)")
    expect(board).to_contain_text("Answer: 45")
    slider = page.get_by_role("slider")
    slider.press("ArrowLeft")
    expect(board).to_contain_text("2 earlier calls")
    expect(board).not_to_contain_text("Answer: 45")
    slider.press("Home")
    expect(board).not_to_contain_text("python")


def test_long_calls_and_results_stay_within_the_page(page: Page) -> None:
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    for text in page.locator(".call-text, .call-result").all():
        assert text.evaluate("node => node.scrollWidth <= node.clientWidth + 1")
    contrast = page.locator(".call.failed .call-result").evaluate("node => getComputedStyle(node).color")
    assert contrast != page.locator(".call-result").nth(1).evaluate("node => getComputedStyle(node).color")
