"""A web page as SVG: address, buttons, links and choices; mirrors static/js/board/web_page_board.js."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from webapp.trajectories.render import mistake_label
from webapp.trajectories.render.mistake_label import Mark
from webapp.trajectories.render.palette import LIGHT
from webapp.trajectories.render.svg import SIDE, Box, plate, square, write
from webapp.trajectories.render.text import fitted, width, wrapped

SEARCH = "search[keywords]"
Data = Mapping[str, Any]
POINT = 38
"""Size of the text; others are shares of it."""
SMALL, CHIP = round(POINT * 0.85), round(POINT * 0.95)
MARGIN = 35
RIGHT = SIDE - MARGIN
ROOM = SIDE - 2 * MARGIN
LINE = 2
"""Width of thin lines."""


def draw_page(board: Data, mark: Mark | None = None) -> str:
    """Draw the top of the page as a document.

    `mark`: a mistake made on this page, drawn at its element; elements below the picture are named at its end.
    """
    page = _Page(mark)
    page.put(board)
    return square(page.parts, LIGHT["panel"])


class _Page:
    """Vertical layout. `y` is the position of the next item."""

    def __init__(self, mark: Mark | None) -> None:
        self.parts: list[str] = []
        self.mark = mark
        self.waiting = [str(name) for name in (mark["played"], *mark["better"][:1])] if mark else []
        """Actions of the mark whose elements have not been drawn."""
        self.y = 0.0

    def put(self, board: Data) -> None:
        high = POINT * 2.1
        self._band(0, high, high)
        last = board.get("last") or ""
        location = fitted(last, SMALL, ROOM * 0.55) if last else ""
        wide = width(location, SMALL) if location else 0
        self._write(MARGIN, high * 0.66, fitted(board["address"], SMALL, ROOM - wide - POINT * 1.4), SMALL, "soft")
        if location:
            box = (RIGHT - wide - POINT * 0.6, high * 0.2, RIGHT, high * 0.82)
            self.parts.append(plate(box, LIGHT["accent-wash"], POINT * 0.3))
            self._write(RIGHT - POINT * 0.3, high * 0.64, location, SMALL, "accent", anchor="end")
        self.y = high + POINT * 0.5
        self._lines(board["title"], round(POINT * 1.1), "ink", 2, bold=0.02)
        for section in board["sections"]:
            if self.y > SIDE:
                break
            self.y += POINT * 0.55
            self._section(section)
        self._waiting()

    def _write(self, x: float, y: float, text: str, size: int, colour: str, **more: Any) -> None:
        self.parts.append(write((x, y), text, size, LIGHT[colour], **more))

    def _band(self, top: float, bottom: float, line: float) -> None:
        """Draw a bar over the whole width, with a line at that height."""
        self.parts.append(plate((0, top, SIDE, bottom), LIGHT["raised"]))
        self._rule(0, SIDE, line)

    def _rule(self, left: float, right: float, y: float) -> None:
        self.parts.append(plate((left, y - LINE / 2, right, y + LINE / 2), LIGHT["line"]))

    def _label(self, action: str, box: Box) -> None:
        """Draw frame and glyph of an element if the mark is about it."""
        if self.mark is None or not action:
            return
        used = [name for name in self.waiting if _uses(name, action)]
        if not used or box[3] > SIDE:
            return
        self.waiting.remove(used[0])
        top, right = box[1] - POINT * 0.15, min(box[2] + POINT * 0.75, SIDE - POINT * 0.2)
        if used[0] == str(self.mark["played"]):
            colour = mistake_label.get_mark_colour(self.mark)
            self.parts.append(mistake_label.frame(box, colour, POINT * 0.2, POINT * 0.4))
            self.parts.append(mistake_label.badge(right, top, self.mark, POINT * 1.4))
        else:
            self.parts.append(mistake_label.frame(box, LIGHT["good"], POINT * 0.16, POINT * 0.4))
            self.parts.append(mistake_label.better_badge(right, top, POINT * 1.1))

    def _waiting(self) -> None:
        """Name the elements of the mark that are below the picture, in a line at its end."""
        if self.mark is None or not self.waiting:
            return
        y = SIDE - POINT * 2.2
        self._band(y, SIDE, y)
        x, base = float(MARGIN), y + POINT * 1.4
        for name in self.waiting:
            if name == str(self.mark["played"]):
                self.parts.append(mistake_label.badge(x + POINT * 1.5, y + POINT * 1.1, self.mark, POINT * 1.5))
                x += POINT * 1.9
            else:
                self._write(x, base, "better:", SMALL, "good")
                x += width("better: ", SMALL)
            text = fitted(name, SMALL, ROOM * 0.36)
            self._write(x, base, text, SMALL, "ink")
            x += width(text, SMALL) + POINT

    def _lines(self, text: str, size: int, colour: str, most: int, *, indent: float = 0, bold: float = 0) -> None:
        for line in wrapped(text, size, ROOM - indent, most):
            self.y += size * 1.32
            self._write(MARGIN + indent, self.y - size * 0.3, line, size, colour, bold=bold)

    def _visible(self, items: list[Data]) -> Iterator[Data]:
        """Yield the items until the page is full."""
        for item in items:
            if self.y > SIDE:
                return
            yield item

    def _section(self, section: Data) -> None:
        title, items, top = section.get("title", ""), self._visible(section["items"]), self.y
        if section["layout"] == "note":
            if title:
                self._lines(title, SMALL, "soft", 1, indent=POINT * 0.8)
            for item in items:
                self._lines(item["text"], POINT, "soft", 4, indent=POINT * 0.8)
            box = (MARGIN, top + POINT * 0.2, MARGIN + POINT * 0.22, self.y)
            self.parts.append(plate(box, LIGHT["line-strong"]))
            return
        if title:
            self._lines(title, SMALL, "soft", 1)
            self.y += POINT * 0.15
        if section["layout"] in ("buttons", "choices"):
            self._chips(items)
            return
        for item in items:
            if section["layout"] == "list":
                self._row(item)
            else:
                self._lines(item["text"], POINT, "ink", 6)

    def _chips(self, items: Iterator[Data]) -> None:
        x, high = float(MARGIN), POINT * 1.7
        for item in items:
            if item.get("action") == SEARCH:
                self._search(item, high)
                x = RIGHT
                continue
            text = fitted(item["text"], CHIP, ROOM - POINT * 1.4)
            wide = width(text, CHIP) + POINT * 1.3
            if x > MARGIN and x + wide > RIGHT:
                x, self.y = MARGIN, self.y + high + POINT * 0.4
            fill, edge, ink = (
                ("accent", "accent", "accent-ink") if item.get("chosen") else ("raised", "line-strong", "ink")
            )
            box = (x, self.y, x + wide, self.y + high)
            self.parts.append(plate(box, LIGHT[fill], POINT * 0.35, LIGHT[edge], LINE))
            self._write(x + POINT * 0.65, self.y + high * 0.68, text, CHIP, ink)
            self._label(str(item.get("action") or ""), box)
            x += wide + POINT * 0.4
        self.y += high

    def _search(self, item: Data, high: float) -> None:
        text = fitted(item["text"], CHIP, ROOM / 2)
        box = (MARGIN, self.y, RIGHT, self.y + high)
        inner = (RIGHT - width(text, CHIP) - POINT * 1.4 - 6, self.y + 6, RIGHT - 6, self.y + high - 6)
        self.parts.append(plate(box, LIGHT["panel"], POINT * 0.35, LIGHT["line-strong"], LINE))
        self.parts.append(plate(inner, LIGHT["accent"], POINT * 0.3))
        self._write((inner[0] + inner[2]) / 2, self.y + high * 0.67, text, CHIP, "accent-ink", anchor="middle")
        self._label(SEARCH, box)

    def _row(self, item: Data) -> None:
        self._rule(MARGIN, RIGHT, self.y + LINE)
        detail = fitted(item.get("detail", ""), CHIP, ROOM * 0.6)
        self.y += POINT * 0.3
        top = self.y
        for line in wrapped(item["text"], CHIP, ROOM - (width(detail, CHIP) + POINT if detail else 0), 2):
            self.y += CHIP * 1.3
            self._write(MARGIN, self.y - CHIP * 0.3, line, CHIP, "accent" if item.get("action") else "ink")
        if detail:
            self._write(RIGHT, top + CHIP, detail, CHIP, "soft", anchor="end")
        self.y += POINT * 0.3
        self._label(str(item.get("action") or ""), (MARGIN, top - POINT * 0.1, RIGHT, self.y))


def _uses(name: str, action: str) -> bool:
    """Return True if the action uses the element with this name: equal up to case and spaces, or any search."""
    name, action = ("".join(text.lower().split()) for text in (name, action))
    return name == action or (name.startswith("search[") and action == SEARCH)
