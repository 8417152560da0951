"""Raster image of a web page: address, buttons, links and choices; mirrors static/js/board/web_page_board.js."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from PIL import Image, ImageDraw

from webapp.trajectories.render import mistake_label
from webapp.trajectories.render.palette import INK, LIGHT
from webapp.trajectories.render.text import Draw, fitted, width, wrapped, write

FINE = 2
SEARCH = "search[keywords]"
Data = Mapping[str, Any]


def draw_page(board: Data, size: int, mark: mistake_label.Mark | None = None) -> Image.Image:
    """Draw the top of the page as a square with sides of `size` pixels.

    `mark`: a mistake made on this page, drawn at its element; elements below the picture are named at its end.
    """
    image = Image.new("RGB", (size * FINE, size * FINE), LIGHT["panel"])
    _Page(ImageDraw.Draw(image), size * FINE, mark).put(board)
    return image.reduce(FINE)


class _Page:
    """Vertical layout. `y` is the position of the next item, in pixels of the enlarged picture."""

    def __init__(self, draw: Draw, side: int, mark: mistake_label.Mark | None) -> None:
        self.draw, self.side = draw, side
        self.mark = mark
        self.waiting = [str(name) for name in (mark["played"], *mark["better"][:1])] if mark else []
        """Actions of the mark whose elements have not been drawn."""
        self.point = side // 26
        self.margin = side * 0.035
        self.room = side - 2 * self.margin
        self.y = 0.0

    def put(self, board: Data) -> None:
        point = self.point
        high = point * 2.1
        self.draw.rectangle((0, 0, self.side, high), LIGHT["raised"])
        self.draw.line((0, high, self.side, high), LIGHT["line"], 2)
        last = board.get("last") or ""
        location = fitted(last, round(point * 0.85), self.room * 0.55) if last else ""
        wide = width(location, round(point * 0.85)) if location else 0
        small = round(point * 0.9)
        address = fitted(board["address"], small, self.room - wide - point * 1.4)
        write(self.draw, (self.margin, high * 0.66), address, small, LIGHT["soft"])
        if location:
            right = self.side - self.margin
            self.draw.rounded_rectangle(
                (right - wide - point * 0.6, high * 0.2, right, high * 0.82), point * 0.3, LIGHT["accent_wash"]
            )
            write(
                self.draw,
                (right - point * 0.3, high * 0.64),
                location,
                round(point * 0.85),
                LIGHT["accent"],
                anchor="rs",
            )
        self.y = high + point * 0.5
        self._lines(board["title"], round(point * 1.1), INK, 2, bold=0.02)
        for section in board["sections"]:
            if self.y > self.side:
                break
            self.y += point * 0.55
            self._section(section)
        self._waiting()

    def _label(self, action: str, box: mistake_label.Box) -> None:
        """Draw frame and glyph of an element if the mark is about it."""
        if self.mark is None or not action:
            return
        used = [name for name in self.waiting if _uses(name, action)]
        if not used or box[3] > self.side:
            return
        self.waiting.remove(used[0])
        point, top = self.point, box[1] - self.point * 0.15
        right = min(box[2] + point * 0.75, self.side - point * 0.2)
        if used[0] == str(self.mark["played"]):
            mistake_label.frame(self.draw, box, mistake_label.get_mark_colour(self.mark), point * 0.2, point * 0.4)
            mistake_label.badge(self.draw, right, top, self.mark, round(point * 1.4))
        else:
            mistake_label.frame(self.draw, box, LIGHT["good"], point * 0.16, point * 0.4)
            mistake_label.better_badge(self.draw, right, top, round(point * 1.1))

    def _waiting(self) -> None:
        """Name the elements of the mark that are below the picture, in a line at its end."""
        if self.mark is None or not self.waiting:
            return
        point, y = self.point, self.side - self.point * 2.2
        self.draw.rectangle((0, y, self.side, self.side), LIGHT["raised"])
        self.draw.line((0, y, self.side, y), LIGHT["line"], 2)
        x, middle = self.margin, y + point * 1.1
        for name in self.waiting:
            played = name == str(self.mark["played"])
            text = fitted(name, round(point * 0.9), self.room * 0.36)
            if played:
                mistake_label.badge(self.draw, x + point * 1.5, middle, self.mark, round(point * 1.5))
                x += point * 1.9
            else:
                x += write(self.draw, (x, middle), "better: ", round(point * 0.9), LIGHT["good"], anchor="lm")
            x += write(self.draw, (x, middle), text, round(point * 0.9), INK, anchor="lm") + point

    def _lines(self, text: str, size: int, fill: str, most: int, *, indent: float = 0, bold: float = 0) -> None:
        for line in wrapped(text, size, self.room - indent, most):
            self.y += size * 1.32
            write(self.draw, (self.margin + indent, self.y - size * 0.3), line, size, fill, bold=bold)

    def _visible(self, items: list[Data]) -> Iterator[Data]:
        """Yield the items until the page is full."""
        for item in items:
            if self.y > self.side:
                return
            yield item

    def _section(self, section: Data) -> None:
        title = section.get("title", "")
        match section["layout"]:
            case "note":
                top = self.y
                indent = self.point * 0.8
                if title:
                    self._lines(title, round(self.point * 0.85), LIGHT["soft"], 1, indent=indent)
                for item in self._visible(section["items"]):
                    self._lines(item["text"], self.point, LIGHT["soft"], 4, indent=indent)
                box = (self.margin, top + self.point * 0.2, self.margin + self.point * 0.22, self.y)
                self.draw.rectangle(box, LIGHT["line_strong"])
                return
            case "buttons" | "choices":
                self._heading(title)
                self._chips(section["items"])
            case "list":
                self._heading(title)
                for item in self._visible(section["items"]):
                    self._row(item)
            case _:
                self._heading(title)
                for item in self._visible(section["items"]):
                    self._lines(item["text"], self.point, INK, 6)

    def _heading(self, title: str) -> None:
        if title:
            self._lines(title, round(self.point * 0.85), LIGHT["soft"], 1)
            self.y += self.point * 0.15

    def _chips(self, items: list[Data]) -> None:
        x, high, size = self.margin, self.point * 1.7, round(self.point * 0.95)
        for item in self._visible(items):
            if item.get("action") == SEARCH:
                x = self._search(item, high, size)
                continue
            text = fitted(item["text"], size, self.room - self.point * 1.4)
            wide = width(text, size) + self.point * 1.3
            if x > self.margin and x + wide > self.side - self.margin:
                x, self.y = self.margin, self.y + high + self.point * 0.4
            chosen = item.get("chosen")
            fill, edge, ink = (
                (LIGHT["accent"], LIGHT["accent"], "#ffffff")
                if chosen
                else (LIGHT["raised"], LIGHT["line_strong"], INK)
            )
            box = (x, self.y, x + wide, self.y + high)
            self.draw.rounded_rectangle(box, self.point * 0.35, fill, edge, 2)
            write(self.draw, (x + self.point * 0.65, self.y + high * 0.68), text, size, ink)
            self._label(str(item.get("action") or ""), box)
            x += wide + self.point * 0.4
        self.y += high

    def _search(self, item: Data, high: float, size: int) -> float:
        right = self.side - self.margin
        wide = width(item["text"], size) + self.point * 1.4
        self.draw.rounded_rectangle(
            (self.margin, self.y, right, self.y + high), self.point * 0.35, LIGHT["panel"], LIGHT["line_strong"], 2
        )
        inner = (right - wide - 6, self.y + 6, right - 6, self.y + high - 6)
        self.draw.rounded_rectangle(inner, self.point * 0.3, LIGHT["accent"])
        write(self.draw, ((inner[0] + inner[2]) / 2, self.y + high * 0.67), item["text"], size, "#ffffff", anchor="ms")
        self._label(SEARCH, (self.margin, self.y, right, self.y + high))
        return right

    def _row(self, item: Data) -> None:
        self.draw.line((self.margin, self.y + 2, self.side - self.margin, self.y + 2), LIGHT["line"], 2)
        size = round(self.point * 0.95)
        detail = fitted(item.get("detail", ""), size, self.room * 0.6)
        room = self.room - (width(detail, size) + self.point if detail else 0)
        self.y += self.point * 0.3
        top = self.y
        for line in wrapped(item["text"], size, room, 2):
            self.y += size * 1.3
            write(
                self.draw,
                (self.margin, self.y - size * 0.3),
                line,
                size,
                LIGHT["accent"] if item.get("action") else INK,
            )
        if detail:
            write(self.draw, (self.side - self.margin, top + size), detail, size, LIGHT["soft"], anchor="rs")
        self.y += self.point * 0.3
        box = (self.margin, top - self.point * 0.1, self.side - self.margin, self.y)
        self._label(str(item.get("action") or ""), box)


def _uses(name: str, action: str) -> bool:
    """Return True if the action uses the element with this name: equal up to case and spaces, or any search."""
    name, action = ("".join(text.lower().split()) for text in (name, action))
    return name == action or (name.startswith("search[") and action == SEARCH)
