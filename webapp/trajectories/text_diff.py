"""Word diff of the thoughts and answers of two trajectories, turn by turn."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import Match, SequenceMatcher
from itertools import accumulate
from typing import Any, Literal

PAIR_STEPS = 2_000_000
"""Work for one pair of texts: characters and compared words (about 0.2 s). Beyond it, both are shown as they are."""
PAGE_STEPS = 10_000_000
"""Work for all pairs of two trajectories."""
MAX_PAIRS = 200
"""Pairs of turns of a page."""

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
    compared: bool = True
    """False if the texts are too different: the pieces are the two whole texts."""
    steps: int = 0
    """Work of the comparison."""

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
    def compared(self) -> bool:
        """Whether words are marked; otherwise a comparison was given up."""
        return self.thought.compared and self.answer.compared

    @property
    def same_state(self) -> bool:
        """Whether both turns began with the same state."""
        return self.left is not None and self.right is not None and self.left.get("state") == self.right.get("state")


def compare_turns(left: Sequence[Mapping[str, Any]], right: Sequence[Mapping[str, Any]]) -> list[TurnPair]:
    """The first MAX_PAIRS pairs of the turns of two trajectories, each given by its turn events in order.

    Once PAGE_STEPS are used up, the remaining texts that differ are not compared.
    """
    steps = PAGE_STEPS
    result = []
    for number in range(min(MAX_PAIRS, max(len(left), len(right)))):
        one = left[number] if number < len(left) else None
        other = right[number] if number < len(right) else None
        texts = []
        for what in ("thought", "answer"):
            texts.append(word_diff(_text_of(one, what), _text_of(other, what), min(steps, PAIR_STEPS)))
            steps -= texts[-1].steps
        result.append(TurnPair(number, one, other, *texts))
    return result


def _text_of(event: Mapping[str, Any] | None, what: str) -> str:
    if event is None:
        return ""
    if what == "thought" and not event.get("thought") and not event.get("format_valid", True):
        return str(event.get("response", ""))  # an unparsable response is shown as it is
    return str(event.get(what) or "")


def word_diff(left: str, right: str, limit: int = PAIR_STEPS) -> Text:
    """Word diff. Spaces are not words, so that different line breaks are no difference.

    Texts that would take more than `limit` steps are not compared.
    """
    if left == right:
        return Text([DiffPiece("same", left)] if left else [])
    if not left or not right:
        return Text([DiffPiece("gone", left)] if left else [DiffPiece("new", right)])
    uncompared = Text([DiffPiece("gone", left), DiffPiece("new", right)], compared=False, steps=limit)
    steps = len(left) + len(right)
    if steps > limit:  # before the words are looked for
        return uncompared
    one, other = _words(left), _words(right)
    matcher = _LimitedMatcher([word.strip() for word in one], [word.strip() for word in other], limit - steps)
    try:
        blocks = matcher.get_matching_blocks()
    except _TooDifferent:
        return uncompared
    return Text(_pieces(one, other, blocks), steps=limit - matcher.rest)


class _TooDifferent(Exception):
    """The comparison needs more steps than it may take."""


class _LimitedMatcher(SequenceMatcher[str]):
    """Counts the words that it compares. Raises _TooDifferent."""

    def __init__(self, first: list[str], second: list[str], limit: int) -> None:
        super().__init__(None, first, second, autojunk=False)
        occurrences = Counter(second)
        self._steps = [0, *accumulate(1 + occurrences[word] for word in first)]  # to look for the words before each
        self.rest = limit

    def find_longest_match(self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None) -> Match:
        """As SequenceMatcher does, which asks for parts of the texts again and again."""
        self.rest -= self._steps[-1 if ahi is None else ahi] - self._steps[alo]
        if self.rest < 0:
            raise _TooDifferent
        return super().find_longest_match(alo, ahi, blo, bhi)


def _pieces(one: Sequence[str], other: Sequence[str], blocks: Sequence[tuple[int, int, int]]) -> list[DiffPiece]:
    """Pieces of both texts, given the positions and lengths of their equal stretches; the last one is empty."""
    pieces: list[DiffPiece] = []
    a = c = 0
    for start, other_start, length in blocks:
        end, other_end = start + length, other_start + length
        pieces += [
            DiffPiece("gone", "".join(one[a:start])),
            DiffPiece("new", "".join(other[c:other_start])),
            DiffPiece("same", "".join(one[start:end]), "".join(other[other_start:other_end])),
        ]
        a, c = end, other_end
    return [piece for piece in pieces if piece.text]


def _words(text: str) -> list[str]:
    """Words, each with the space after it; punctuation around a word is separate. Together they are the text."""
    if not text.strip():
        return [text]  # the expression would look for a word from every space on
    return re.findall(r"\s*+(?:\w++|[^\w\s]++)\s*+", text)
