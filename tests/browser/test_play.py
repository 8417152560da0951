"""A full game of Sokoban by keyboard in the running product."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

import envs
from webapp.play import starts

pytestmark = pytest.mark.browser


def solution(prompt: int) -> list[str]:
    start = starts.find(None, envs.spec("Sokoban"), "Sokoban", f"prompt={prompt}")
    env = envs.make("Sokoban")
    env.reset(seed=start.seed)
    actions: list[str] = []
    while (hint := env.hint()) and hint.actions:
        actions.append(hint.actions[0])
        env.step(hint.actions[0])
    return actions


def test_sokoban_is_solved_with_the_keyboard(signed_in: Callable[..., Page]) -> None:
    actions = solution(38)
    page = signed_in()
    page.goto("/environments/Sokoban?prompt=38")
    board = page.locator("#play-board")
    expect(board.locator(".piece.box")).to_have_count(1)
    page.evaluate("window.box = document.querySelector('.piece.box')")
    page.keyboard.press("h")
    expect(page.locator(".game-said")).to_contain_text(f"Best: {actions[0]}")
    expect(board.locator(".arrow.ghost")).to_have_count(1)
    for action in actions:  # typing speed: no key is lost while an action is pending
        page.keyboard.press(f"Arrow{action}")
    expect(page.locator(".game .outcome")).to_contain_text(f"Solved in {len(actions)} actions")
    expect(page.locator(".game .outcome")).to_contain_text("Hints used: 1.")
    expect(board.locator(".piece.box.on")).to_have_count(1)
    expect(page.locator("[data-play-status]")).to_contain_text("Solved")
    assert page.evaluate("document.querySelector('.piece.box') === window.box"), "the box slid, it was not drawn anew"
    assert page.evaluate("document.querySelector('.piece.box').getBoundingClientRect().width") > 10
    page.reload()
    expect(page.locator(".game .outcome")).to_contain_text("Solved")
    page.keyboard.press("r")
    expect(page.locator(".score")).to_contain_text("0 of 10")


def test_letter_keys_play_except_in_a_text_field(signed_in: Callable[..., Page]) -> None:
    page = signed_in()
    page.goto("/environments/FrozenLake?seed=4")
    page.keyboard.press("d")
    expect(page.locator(".score")).to_contain_text("1 of 10")
    page.goto("/environments/Countdown?seed=4")
    page.get_by_label("Your answer").press_sequentially("who knows")
    expect(page.get_by_label("Your answer")).to_have_value("who knows")
    page.keyboard.press("Enter")
    expect(page.locator(".game .outcome, .game-said").first).not_to_be_empty()


def test_a_click_on_a_cell_of_a_sudoku_begins_the_answer(signed_in: Callable[..., Page]) -> None:
    page = signed_in()
    page.goto("/environments/Sudoku")
    frame = page.locator("#play-board svg").bounding_box()
    assert frame is not None
    page.mouse.click(frame["x"] + 0.1 * frame["width"] + 1.5 * 0.2 * frame["width"], frame["y"] + 0.2 * frame["height"])
    answer = page.locator("#play-typed")
    expect(answer).to_have_value("r1c2=")
    expect(answer).to_be_focused()
    page.mouse.click(frame["x"] + 2, frame["y"] + 2)  # the frame is no cell
    expect(answer).to_have_value("r1c2=")
