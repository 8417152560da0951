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
"""Work for one pair of texts: characters and compared words (about 0.2 s). Beyond it, both texts are shown unmarked."""
PAGE_STEPS = 10_000_000
"""Work for all pairs of two trajectories."""
MAX_PAIRS = 200
"""Maximum number of pairs of turns on a page."""

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
        """True if differences are marked, False if the comparison was given up."""
        return self.thought.compared and self.answer.compared

    @property
    def same_state(self) -> bool:
        """True if both turns began with the same state."""
        return self.left is not None and self.right is not None and self.left.get("state") == self.right.get("state")


def compare_turns(left: Sequence[Mapping[str, Any]], right: Sequence[Mapping[str, Any]]) -> list[TurnPair]:
    """Return the first MAX_PAIRS pairs of the turns of two trajectories, each given by its turn events in order.

    Once PAGE_STEPS are used up, the remaining texts that differ are not compared.
    """
    steps = PAGE_STEPS
    result = []
    for number in range(min(MAX_PAIRS, max(len(left), len(right)))):
        left_event = left[number] if number < len(left) else None
        right_event = right[number] if number < len(right) else None
        texts = []
        for what in ("thought", "answer"):
            texts.append(word_diff(_get_text(left_event, what), _get_text(right_event, what), min(steps, PAIR_STEPS)))
            steps -= texts[-1].steps
        result.append(TurnPair(number, left_event, right_event, *texts))
    return result


def _get_text(event: Mapping[str, Any] | None, what: str) -> str:
    if event is None:
        return ""
    if what == "thought" and not event.get("thought") and not event.get("format_valid", True):
        return str(event.get("response", ""))  # an unparsable response is shown as it is
    return str(event.get(what) or "")


def word_diff(left: str, right: str, limit: int = PAIR_STEPS) -> Text:
    """Compare two texts word by word. Spaces do not count, so that line breaks make no difference.

    Texts that would take more than `limit` steps are not compared.
    """
    if left == right:
        return Text([DiffPiece("same", left)] if left else [])
    if not left or not right:
        return Text([DiffPiece("gone", left)] if left else [DiffPiece("new", right)])
    uncompared = Text([DiffPiece("gone", left), DiffPiece("new", right)], compared=False, steps=limit)
    steps = len(left) + len(right)
    if steps > limit:  # before the texts are split
        return uncompared
    first, second = _split_words(left), _split_words(right)
    matcher = _LimitedMatcher([word.strip() for word in first], [word.strip() for word in second], limit - steps)
    try:
        blocks = matcher.get_matching_blocks()
    except _TooDifferent:
        return uncompared
    return Text(_pieces(first, second, blocks), steps=limit - matcher.rest)


class _TooDifferent(Exception):
    """The comparison needs more steps than allowed."""


class _LimitedMatcher(SequenceMatcher[str]):
    """A SequenceMatcher that counts the compared words. Raises _TooDifferent."""

    def __init__(self, first: list[str], second: list[str], limit: int) -> None:
        super().__init__(None, first, second, autojunk=False)
        occurrences = Counter(second)
        self._steps = [0, *accumulate(1 + occurrences[word] for word in first)]  # steps for the words before each
        self.rest = limit

    def find_longest_match(self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None) -> Match:
        """Find a match and count its steps; SequenceMatcher calls this repeatedly for parts of the texts."""
        self.rest -= self._steps[-1 if ahi is None else ahi] - self._steps[alo]
        if self.rest < 0:
            raise _TooDifferent
        return super().find_longest_match(alo, ahi, blo, bhi)


def _pieces(one: Sequence[str], other: Sequence[str], blocks: Sequence[tuple[int, int, int]]) -> list[DiffPiece]:
    """Return the pieces of both texts from the positions and lengths of their equal parts; the last one is empty."""
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


def _split_words(text: str) -> list[str]:
    """Split a text into words, each with the space after it; punctuation around a word is separate."""
    if not text.strip():
        return [text]  # the expression would search for a word from every space
    return re.findall(r"\s*+(?:\w++|[^\w\s]++)\s*+", text)
