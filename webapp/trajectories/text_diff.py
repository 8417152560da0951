"""Word diff of the thoughts and answers of two trajectories, turn by turn."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from webapp.trajectories.edit_script import Steps, TooDifferent, matching_blocks

PAIR_STEPS = 100_000
"""Work for one pair of texts, in steps of the comparison (about 0.05 s). Beyond it, the texts are shown as they are."""
PAGE_STEPS = 1_000_000
"""Work for all pairs of two trajectories."""
CHARACTERS_OF_A_STEP = 8
"""Characters that are split into words in about the time of one step."""
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
    """False if the comparison was given up: the pieces are the two whole texts."""

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


def compare_turns(
    left: Sequence[Mapping[str, Any]], right: Sequence[Mapping[str, Any]], steps: Steps | None = None
) -> list[TurnPair]:
    """The first MAX_PAIRS pairs of the turns of two trajectories, each given by its turn events in order.

    `steps` limits the work of all pairs together, by default to PAGE_STEPS; when they are used up, the remaining texts
    that differ are not compared.
    """
    steps = steps or Steps(PAGE_STEPS)
    result = []
    for number in range(min(MAX_PAIRS, max(len(left), len(right)))):
        one = left[number] if number < len(left) else None
        other = right[number] if number < len(right) else None
        thought, answer = (
            word_diff(_text_of(one, what), _text_of(other, what), steps) for what in ("thought", "answer")
        )
        result.append(TurnPair(number, one, other, thought, answer))
    return result


def _text_of(event: Mapping[str, Any] | None, what: str) -> str:
    if event is None:
        return ""
    if what == "thought" and not event.get("thought") and not event.get("format_valid", True):
        return str(event.get("response", ""))  # an unparsable response is shown as it is
    return str(event.get(what) or "")


def word_diff(left: str, right: str, steps: Steps | None = None) -> Text:
    """Word diff. Spaces are not words, so that different line breaks are no difference.

    It takes at most PAIR_STEPS of `steps`; texts that would take more are not compared.
    """
    if left == right:
        return Text([DiffPiece("same", left)] if left else [])
    if not left or not right:
        return Text([DiffPiece("gone", left)] if left else [DiffPiece("new", right)])
    steps = steps or Steps(PAIR_STEPS)
    try:
        if steps.left <= 0:
            raise TooDifferent
        pair_steps = steps.at_most(PAIR_STEPS)
        pair_steps.take(1 + (len(left) + len(right)) // CHARACTERS_OF_A_STEP)  # before the words are looked for
        one, other = _words(left), _words(right)
        ids: dict[str, int] = {}
        first, second = ([ids.setdefault(word.strip(), len(ids)) for word in words] for words in (one, other))
        blocks = matching_blocks(first, second, pair_steps)
    except TooDifferent:
        return Text([DiffPiece("gone", left), DiffPiece("new", right)], compared=False)
    pieces: list[DiffPiece] = []
    a = c = 0
    for start, other_start, length in [*blocks, (len(one), len(other), 0)]:
        end, other_end = start + length, other_start + length
        pieces += [
            DiffPiece("gone", "".join(one[a:start])),
            DiffPiece("new", "".join(other[c:other_start])),
            DiffPiece("same", "".join(one[start:end]), "".join(other[other_start:other_end])),
        ]
        a, c = end, other_end
    return Text([piece for piece in pieces if piece.text])


def _words(text: str) -> list[str]:
    """Words, each with the space after it; punctuation around a word is separate. Together they are the text."""
    if not text.strip():
        return [text]  # the expression would look for a word from every space on
    return re.findall(r"\s*+(?:\w++|[^\w\s]++)\s*+", text)
