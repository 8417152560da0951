"""How the thoughts and answers of two trajectories differ, turn by turn and word by word. No database, no page."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Any, Literal

MAX_WORDS = 1_500
"""Texts with more words than that are set beside each other without marks: comparing takes the square of it."""

Kind = Literal["same", "gone", "new"]


@dataclass(frozen=True)
class DiffPiece:
    """Some words that both have ("same"), only the first ("gone") or only the second ("new")."""

    kind: Kind
    text: str
    other: str = ""
    """Of words that both have: how the second spaces them."""


@dataclass(frozen=True)
class Text:
    """A thought or an answer of both, as pieces in reading order."""

    pieces: Sequence[DiffPiece]

    @property
    def left(self) -> list[DiffPiece]:
        return [piece for piece in self.pieces if piece.kind != "new"]

    @property
    def right(self) -> list[DiffPiece]:
        return [replace(piece, text=piece.other or piece.text) for piece in self.pieces if piece.kind != "gone"]

    @property
    def both(self) -> list[DiffPiece]:
        """In one text, with the wider spacing between what both have and what only one has."""
        return [replace(piece, text=max(piece.text, piece.other, key=len)) for piece in self.pieces]

    @property
    def same(self) -> bool:
        return all(piece.kind == "same" for piece in self.pieces)


@dataclass(frozen=True)
class TurnPair:
    """The same turn of both; an event is None where that trajectory had ended."""

    number: int
    left: Mapping[str, Any] | None
    right: Mapping[str, Any] | None
    thought: Text
    answer: Text

    @property
    def same(self) -> bool:
        return self.left is not None and self.right is not None and self.thought.same and self.answer.same

    @property
    def same_state(self) -> bool:
        """Whether both read the same state before they thought."""
        return self.left is not None and self.right is not None and self.left.get("state") == self.right.get("state")


def compared(left: Sequence[Mapping[str, Any]], right: Sequence[Mapping[str, Any]]) -> list[TurnPair]:
    """The turns of two trajectories, side by side. Each is the journal's turn events in order."""
    result = []
    for number in range(max(len(left), len(right))):
        one = left[number] if number < len(left) else None
        other = right[number] if number < len(right) else None
        thought, answer = (difference(_said(one, what), _said(other, what)) for what in ("thought", "answer"))
        result.append(TurnPair(number, one, other, thought, answer))
    return result


def _said(event: Mapping[str, Any] | None, what: str) -> str:
    if event is None:
        return ""
    if what == "thought" and not event.get("thought") and not event.get("format_valid", True):
        return str(event.get("response", ""))  # what could not be taken apart is shown as it was written
    return str(event.get(what) or "")


def difference(left: str, right: str) -> Text:
    """Word by word; spaces are no words, so that a line broken elsewhere is no difference."""
    one, other = _words(left), _words(right)
    if left == right:
        return Text([DiffPiece("same", left)] if left else [])
    if len(one) > MAX_WORDS or len(other) > MAX_WORDS:
        return Text([DiffPiece("gone", left), DiffPiece("new", right)])
    matcher = SequenceMatcher(None, [word.strip() for word in one], [word.strip() for word in other], autojunk=False)
    pieces: list[DiffPiece] = []
    for tag, a, b, c, d in matcher.get_opcodes():
        mine, theirs = "".join(one[a:b]), "".join(other[c:d])
        if tag == "equal":
            pieces.append(DiffPiece("same", mine, theirs))
        else:
            pieces += [DiffPiece("gone", mine), DiffPiece("new", theirs)]
    return Text([piece for piece in pieces if piece.text])


def _words(text: str) -> list[str]:
    """Each word with the space behind it; signs around a word are words of their own."""
    return re.findall(r"\s*(?:\w+|[^\w\s]+)\s*", text)
