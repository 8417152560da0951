"""Player with web pages of a shop in a real browser: static files and one played trajectory, no server."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

import envs
from tests.running_product import wait_for
from webapp.settings import ROOT

ORIGIN = "http://player.test"
TEMPLATES = ROOT / "templates" / "trajectories"
KINDS = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml", "ico": "image/x-icon"}


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


def document(trajectory: dict[str, Any]) -> str:
    template = (TEMPLATES / "_player.html").read_text()
    for part in ("_speeds.html", "_play_and_back.html"):
        included = (TEMPLATES / part).read_text()
        template = re.sub(rf'{{% include "trajectories/{part}".*?%}}', lambda _, text=included: text, template)
    markup = re.sub(r"{%.*?%}", "", re.sub(r"{% if board_text %}.*?{% endif %}", "", template))
    markup = re.sub(r"{{.*?}}", "", markup.replace("{{ view }}", "all").replace(" hidden>", ">"))
    styles = "".join(f'<link rel="stylesheet" href="/static/css/{name}.css">' for name in ("base", "player"))
    data = json.dumps(trajectory).replace("<", "\\u003c")
    return f"""<!doctype html><html class="js"><head><meta name="viewport" content="width=device-width">{styles}</head>
    <body><main class="page">{markup}</main><script type="module">
    import {{ Player }} from "/static/js/player/player.js";
    window.player = new Player(document.querySelector("[data-player]"));
    window.player.load({data});
    </script></body></html>"""


@pytest.fixture(params=[(1100, "light"), (1100, "dark"), (390, "light")], ids=["light", "dark", "phone"])
def page(request: pytest.FixtureRequest, browser: Browser) -> Iterator[Page]:
    width, scheme = request.param
    context = browser.new_context(viewport={"width": width, "height": 760}, color_scheme=scheme)
    shown = context.new_page()
    faults: list[str] = []
    shown.on("pageerror", lambda error: faults.append(str(error)))
    text = document(played())

    def serve(route: Route) -> None:
        path = route.request.url.removeprefix(ORIGIN)
        if path == "/":
            route.fulfill(body=text, content_type="text/html; charset=utf-8")
            return
        file = ROOT / path.lstrip("/")
        if file.is_file():
            route.fulfill(body=file.read_bytes(), content_type=KINDS[file.suffix[1:]])
        else:
            route.fulfill(status=204)

    context.route("**/*", serve)
    shown.goto(f"{ORIGIN}/")
    wait_for(lambda: shown.evaluate("Boolean(window.player)"), "the player", lambda: str(faults))
    yield shown
    context.close()
    assert not faults


def go(page: Page, index: int) -> None:
    page.evaluate("(index) => window.player.take(index)", index)


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
