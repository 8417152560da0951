"""Word diff of the thoughts and answers of two trajectories, turn by turn."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Any, Literal

MAX_WORDS = 1_500
"""Longer texts are shown without a diff: its cost is quadratic."""

Kind = Literal["same", "gone", "new"]


@dataclass(frozen=True)
class DiffPiece:
    """Words of both texts ("same"), of the first only ("gone") or of the second only ("new")."""

    kind: Kind
    text: str
    other: str = ""
    """For "same": the words with the spacing of the second text."""


@dataclass(frozen=True)
class Text:
    """Diff of a thought or an answer, as pieces in reading order."""

    pieces: Sequence[DiffPiece]

    @property
    def left(self) -> list[DiffPiece]:
        return [piece for piece in self.pieces if piece.kind != "new"]

    @property
    def right(self) -> list[DiffPiece]:
        return [replace(piece, text=piece.other or piece.text) for piece in self.pieces if piece.kind != "gone"]

    @property
    def both(self) -> list[DiffPiece]:
        """Pieces merged into one text, with the wider spacing between them."""
        return [replace(piece, text=max(piece.text, piece.other, key=len)) for piece in self.pieces]

    @property
    def same(self) -> bool:
        return all(piece.kind == "same" for piece in self.pieces)


@dataclass(frozen=True)
class TurnPair:
    """A turn of both trajectories; an event is None if that trajectory had ended."""

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
        """Whether both turns began with the same state."""
        return self.left is not None and self.right is not None and self.left.get("state") == self.right.get("state")


def compare_turns(left: Sequence[Mapping[str, Any]], right: Sequence[Mapping[str, Any]]) -> list[TurnPair]:
    """Pairs of the turns of two trajectories, each given by its turn events in order."""
    result = []
    for number in range(max(len(left), len(right))):
        one = left[number] if number < len(left) else None
        other = right[number] if number < len(right) else None
        thought, answer = (word_diff(_text_of(one, what), _text_of(other, what)) for what in ("thought", "answer"))
        result.append(TurnPair(number, one, other, thought, answer))
    return result


def _text_of(event: Mapping[str, Any] | None, what: str) -> str:
    if event is None:
        return ""
    if what == "thought" and not event.get("thought") and not event.get("format_valid", True):
        return str(event.get("response", ""))  # an unparsable response is shown as it is
    return str(event.get(what) or "")


def word_diff(left: str, right: str) -> Text:
    """Word diff. Spaces are not words, so that different line breaks are no difference."""
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
    """Words, each with the space after it; punctuation around a word is separate."""
    return re.findall(r"\s*(?:\w+|[^\w\s]+)\s*", text)
