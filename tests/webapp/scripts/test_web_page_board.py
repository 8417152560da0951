"""Shop pages, without a browser: text, and matching of actions."""

from __future__ import annotations

import pytest

import envs
from envs.webshop.pages import read_action
from tests.webapp.javascript import evaluate


def test_a_page_is_described_by_title_and_selection() -> None:
    item = {"detail": "", "action": "", "chosen": False}
    board = {
        "kind": "page",
        "title": "Blue shirt",
        "address": "shop",
        "last": None,
        "sections": [
            {
                "layout": "choices",
                "title": "size",
                "items": [
                    {**item, "text": "small", "chosen": True},
                    {**item, "text": "large"},
                ],
            }
        ],
    }
    assert evaluate("board/board.js", "describeBoard(data)", board) == "Page: Blue shirt. Chosen: size small."
    env = envs.make("WebShop")
    env.reset(seed=1)
    assert evaluate("board/board.js", "describeBoard(data)", env.board().model_dump()) == "Page: Search the shop."


@pytest.mark.parametrize("action", ["click[buy now]", " CLICK[ Buy   Now ] ", "search[Red  Socks]", "click[< Prev]"])
def test_browser_and_shop_parse_actions_identically(action: str) -> None:
    read = read_action(action)
    assert read is not None
    assert evaluate("board/web_page_board.js", "sameAction(data)", action) == f"{read[0]}[{read[1]}]"
