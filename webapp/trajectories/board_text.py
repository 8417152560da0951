"""Boards as plain text, for pages without JavaScript and for exports."""

from __future__ import annotations

from typing import Any


def board_text(board: dict[str, Any]) -> str:
    """Return the board line by line; empty if there is none."""
    match board.get("kind"):
        case "grid":
            return "\n".join(board["rows"])
        case "arms":
            return "\n".join(_arm(arm) for arm in board["arms"])
        case "page":
            lines = [board["title"], board["address"]]
            for section in board["sections"]:
                lines += ["", section["title"]] if section.get("title") else [""]
                lines += [_item(item) for item in section["items"]]
            return "\n".join(lines)
    return str(board.get("text", ""))


def _arm(arm: dict[str, Any]) -> str:
    return f"{arm['name']}: pulled, paid {arm['last']:g}" if arm.get("pulls") else f"{arm['name']}: not pulled"


def _item(item: dict[str, Any]) -> str:
    mark = "• " if item.get("chosen") else ""
    return f"{mark}{item['text']}" + (f"  {item['detail']}" if item.get("detail") else "")
