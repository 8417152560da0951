"""Sokoban levels (start positions) as text: XSB characters, and the symbols that policies read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

XSB = "# .*$@+"
MEANINGS = ("wall", "empty", "target", "box on target", "box", "player", "player on target")
SYMBOLS = {"standard": "#_O√XPS", "letters": "W.GCBA@"}
"""Vocabularies of the text state, in the order of XSB."""
MAX_SIDE = 50

_TO_XSB = {name: str.maketrans(symbols, XSB) for name, symbols in SYMBOLS.items()}
_FROM_XSB = {name: str.maketrans(XSB, symbols) for name, symbols in SYMBOLS.items()}


class LevelError(ValueError):
    """Text that is not a playable level. The message says why."""


@dataclass(frozen=True)
class Level:
    """A start position. Cells are numbered row by row, with `width` cells in a row. The border is closed by walls."""

    width: int
    height: int
    floor: frozenset[int]
    targets: frozenset[int]
    boxes: frozenset[int]
    player: int

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return itself: a level is immutable."""
        return self

    @cached_property
    def _empty(self) -> str:
        """Return the room without boxes and player."""
        return "".join(
            "." if cell in self.targets else " " if cell in self.floor else "#"
            for cell in range(self.width * self.height)
        )

    def rows(self, boxes: Iterable[int] | None = None, player: int | None = None) -> list[str]:
        """Return the room in XSB characters, with boxes and player at the start or at the given cells."""
        boxes = self.boxes if boxes is None else boxes
        player = self.player if player is None else player
        cells = list(self._empty)
        for cell in boxes:
            cells[cell] = "*" if cell in self.targets else "$"
        cells[player] = "+" if player in self.targets else "@"
        text = "".join(cells)
        return [text[start : start + self.width] for start in range(0, len(text), self.width)]


def format_rows(rows: list[str], vocabulary: str) -> str:
    """Return XSB rows as the text that a policy reads."""
    return "\n".join(rows).translate(_FROM_XSB[vocabulary])


def meanings(vocabulary: str) -> dict[str, str]:
    """Return symbol → meaning, in prompt order."""
    return dict(zip(SYMBOLS[vocabulary], MEANINGS, strict=True))


def parse(text: str) -> Level:
    """Parse a level in XSB characters or in one of the vocabularies, which is detected.

    Raises LevelError for an unknown character, an open room, not exactly one player, no box, or different numbers of
    boxes and targets.
    """
    lines = [line.rstrip() for line in text.strip("\r\n").splitlines()]
    if not lines:
        raise LevelError("the level is empty")
    rows = _as_xsb(lines)
    width, height = max(map(len, rows)), len(rows)
    if max(width, height) > MAX_SIDE:
        raise LevelError(f"the level is {width} cells wide and {height} high: at most {MAX_SIDE} are allowed")
    cells = "".join(row.ljust(width) for row in rows)
    players = [cell for cell, sign in enumerate(cells) if sign in "@+"]
    boxes = frozenset(cell for cell, sign in enumerate(cells) if sign in "$*")
    targets = frozenset(cell for cell, sign in enumerate(cells) if sign in ".*+")
    if len(players) != 1:
        raise LevelError(f"a level must have exactly one player, not {len(players)}")
    if not boxes:
        raise LevelError("the level has no box")
    if len(boxes) != len(targets):
        raise LevelError(f"the level has {len(boxes)} boxes but {len(targets)} targets")
    outside = _outside(cells, width, height)
    for cell in (*players, *boxes, *targets):
        if cell in outside:
            row, column = divmod(cell, width)
            raise LevelError(f"row {row + 1}, column {column + 1} is not inside the walls: close the room")
    floor = frozenset(cell for cell, sign in enumerate(cells) if sign != "#") - outside
    return Level(width, height, floor, targets, boxes, players[0])


def _as_xsb(lines: list[str]) -> list[str]:
    """Return the lines in XSB characters, floor as space."""
    used = set("".join(lines))
    for name, symbols in SYMBOLS.items():
        if used <= set(symbols) and symbols[0] in used:
            return [line.translate(_TO_XSB[name]) for line in lines]
    unknown = sorted(used - set(XSB) - set("-_"))
    if unknown:
        raise LevelError(
            f"{unknown[0]!r} is not a character of a level: use {XSB!r} (XSB) or {SYMBOLS['standard']!r} throughout"
        )
    return [line.translate({ord("-"): " ", ord("_"): " "}) for line in lines]


def _outside(cells: str, width: int, height: int) -> set[int]:
    """Return cells, other than walls, that are connected to the border."""
    todo = [
        cell
        for cell, sign in enumerate(cells)
        if sign != "#" and (cell // width in (0, height - 1) or cell % width in (0, width - 1))
    ]
    seen = set(todo)
    while todo:
        cell = todo.pop()
        column = cell % width
        steps = [cell - width, cell + width]
        steps += [cell - 1] if column else []
        steps += [cell + 1] if column < width - 1 else []
        for step in steps:
            if 0 <= step < len(cells) and cells[step] != "#" and step not in seen:
                seen.add(step)
                todo.append(step)
    return seen
