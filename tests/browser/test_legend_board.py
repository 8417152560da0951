"""Grid of a third-party environment in a real browser: colours of tones, and DOM nodes of moving pieces."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from envs.base import GridBoard, Symbol, TextBoard
from tests.browser.static_pages import html, static_pages

LEGEND = {
    "#": Symbol(name="hedge", tone="wall"),
    "w": Symbol(name="wolf", tone="danger", glyph="W"),
    "h": Symbol(name="home", tone="goal"),
    "s": Symbol(name="sheep", tone="piece", glyph="s1"),
    "m": Symbol(name="shepherd", tone="player"),
}


def board(*rows: str, legend: bool = True) -> str:
    grid = GridBoard(theme="meadow", rows=list(rows), legend=LEGEND if legend else None)
    return json.dumps(grid.model_dump(exclude_none=True))


@pytest.fixture(params=["light", "dark"])
def page(request: pytest.FixtureRequest, browser: Browser) -> Iterator[Page]:
    script = """
    import { BoardView } from "/static/js/board/board.js";
    window.view = new BoardView(document.querySelector(".board"));
    """
    with static_pages(browser, 400, 400, request.param) as pages:
        yield pages.open(html('<div class="board" style="width: 300px"></div>', script), "window.view")


def show(page: Page, board: str, animate: bool = False) -> None:
    page.evaluate(f"view.show({board}, {{animate: {str(animate).lower()}}})")


def style(page: Page, selector: str, name: str) -> str:
    found = page.evaluate("([s, n]) => getComputedStyle(document.querySelector(s))[n]", [selector, name])
    assert isinstance(found, str)
    return found


def colour(page: Page, variable: str) -> str:
    """A custom property of the page as a computed colour."""
    found = page.evaluate(
        "(v) => { const n = document.createElement('i'); n.style.color = `var(${v})`; document.body.append(n);"
        " const c = getComputedStyle(n).color; n.remove(); return c; }",
        variable,
    )
    assert isinstance(found, str)
    return found


def test_tones_use_the_colours_of_the_page(page: Page) -> None:
    show(page, board("#w#", "sm ", "  h"))
    assert style(page, ".tone.danger", "stroke") == colour(page, "--bad")
    assert style(page, ".tone.goal", "stroke") == colour(page, "--good")
    assert style(page, ".glyph.danger", "fill") == colour(page, "--bad")
    assert style(page, ".sign .disc", "fill") == colour(page, "--box")
    expect(page.locator(".glyph.danger")).to_have_text("W")
    expect(page.locator(".board")).to_have_attribute(
        "aria-label",
        "Board, 3 rows by 3 columns. wolf at row 1, column 2. home at row 3, column 3. sheep at row 2, column 1. "
        "shepherd at row 2, column 2.",
    )


def test_glyphs_are_legible_on_floor_and_on_painted_tiles(page: Page) -> None:
    legend = {
        "1": Symbol(name="one", glyph="1"),
        "r": Symbol(name="red tile", tone="red", glyph="2048"),
        "y": Symbol(name="yellow tile", tone="yellow", glyph="8"),
    }
    show(page, json.dumps(GridBoard(theme="tiles", rows=["1ry"], legend=legend).model_dump(exclude_none=True)))
    assert style(page, ".glyph.floor", "fill") == colour(page, "--ink")
    assert style(page, ".tone.red", "fill") == colour(page, "--paint-red")
    assert style(page, ".glyph.red", "fill") == colour(page, "--paint-white")
    assert style(page, ".glyph.yellow", "fill") == colour(page, "--paint-ink")
    expect(page.locator(".glyph.red")).to_have_text("2048")


def test_pieces_keep_their_nodes_when_moved_and_lose_them_when_removed(page: Page) -> None:
    show(page, board("#w#", "sm ", "  h"))
    page.evaluate("window.sheep = document.querySelector('.sign')")
    show(page, board("#w#", " ms", "  h"), animate=True)
    assert page.evaluate("document.querySelector('.sign') === window.sheep")
    assert page.evaluate("window.sheep.style.transform") == "translate(2px, 1px)"
    show(page, board("#w#", " m ", "  h"))
    expect(page.locator(".sign")).to_have_count(0)
    page.evaluate("view.ghost('Up')")
    expect(page.locator(".arrow.ghost")).to_have_count(1)


def test_an_unknown_theme_without_a_legend_is_shown_as_text(page: Page) -> None:
    show(page, board("#w#", "sm ", legend=False))
    expect(page.locator(".board pre")).to_have_text("#w#\nsm ")
    show(page, board("#w#", "sm "))
    expect(page.locator(".board pre")).to_have_count(0)
    expect(page.locator(".sign")).to_have_count(1)


def test_a_question_stands_beside_its_grid(page: Page) -> None:
    question = TextBoard(
        text="Where is the wolf?\n" * 40, grid=GridBoard(theme="meadow", rows=["#w#", "sm "], legend=LEGEND)
    )
    show(page, json.dumps(question.model_dump(exclude_none=True)))
    expect(page.get_by_role("img", name="Board, 2 rows by 3 columns.")).to_be_visible()
    grid, words = page.locator(".question-grid").bounding_box(), page.locator(".board pre").bounding_box()
    assert grid
    assert words
    assert grid["x"] + grid["width"] <= words["x"]
    assert page.evaluate("document.querySelector('.board pre').scrollHeight") > words["height"]
    host = page.locator(".board").bounding_box()
    assert host
    assert words["height"] <= host["height"]
    show(page, json.dumps(TextBoard(text="Nothing else").model_dump(exclude_none=True)))
    expect(page.locator(".question-grid")).to_have_count(0)
    expect(page.locator(".board")).to_have_text("Nothing else")
