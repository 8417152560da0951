"""Pictures of the environments for the launch page: their sample boards, without what only playing needs.

The first state of some environments takes seconds to make, since they read and index a catalogue first. Theirs is
stored here; tests/webapp/play/test_launch_pictures.py compares it with the environment's own.
"""

from __future__ import annotations

from typing import Any

from webapp.play.environment_info import sample

MAX_TEXT = 300
"""Characters of the text that stands for a board."""
_REQUEST = (
    "I am looking for colour safe, sulfate free shampoo bars with argan oil, scent cedar, size 1 pack, price at most "
    "60.00 dollars"
)
STORED: dict[str, dict[str, Any]] = {
    "WebShop": {
        "kind": "page",
        "title": "Search the shop",
        "address": "shop",
        "sections": [
            {
                "layout": "note",
                "title": "Request",
                "items": [{"text": _REQUEST, "detail": "", "action": "", "chosen": False}],
            },
            {
                "layout": "buttons",
                "title": "",
                "items": [{"text": "Search", "detail": "", "action": "search[keywords]", "chosen": False}],
            },
        ],
    }
}
"""Boards of samples by environment."""


def launch_picture(name: str) -> dict[str, Any]:
    """`board` and `text` of the environment's sample; of a stored one without starting the environment."""
    if name in STORED:
        return {"board": STORED[name], "text": ""}
    made = sample(name)
    return {"board": made.board, "text": made.text[:MAX_TEXT]}
