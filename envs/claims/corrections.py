"""Thoughts with their false positions put right, as far as the claims say what is true. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from envs.base import Claim

_NUMBER = re.compile(r"\d+", re.ASCII)
_COLUMN_FIRST = re.compile(r"col.*row", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class Correction:
    """A false claim and its place in the corrected thought, in code points.

    Attributes:
        words: the claim as it was written.
        right: the words with the true position; None if the claim names no single position, so that it stays as it is.
    """

    words: str
    right: str | None
    start: int
    end: int


@dataclass(frozen=True)
class CorrectedThought:
    """A thought with the false claims that name one cell put right, and all of its false claims in order."""

    text: str
    claims: Sequence[Correction]

    @property
    def corrections(self) -> list[Correction]:
        """The claims that were put right."""
        return [claim for claim in self.claims if claim.right is not None]


def corrected(thought: str, claims: Sequence[Claim]) -> CorrectedThought:
    """Correct the false claims of a thought that name one cell. The others stay; of overlapping ones the first counts.

    Args:
        claims: the claims of this thought, compared with its state.
    """
    text, end = "", 0
    found: list[Correction] = []
    for claim in sorted((claim for claim in claims if not claim.true), key=lambda claim: claim.start):
        if claim.start < end or claim.end > len(thought):
            continue
        text += thought[end : claim.start]
        words = thought[claim.start : claim.end]
        right = _with_true_position(words, claim)
        shown = words if right is None else right
        found.append(Correction(words, right, len(text), len(text) + len(shown)))
        text += shown
        end = claim.end
    return CorrectedThought(text + thought[end:], found)


def _with_true_position(words: str, claim: Claim) -> str | None:
    """Return the words of a false claim with the true position.

    None if they do not name one cell by row and column from 1, or if the thing is in several cells: then it is unknown
    which of them is meant. A distance that puts a thing into a cell (`placed`) names no position.
    """
    named, actual = _only(claim.cells), _only(claim.actual_cells)
    if named is None or actual is None or claim.placed:
        return None
    numbers = [int(number) for number in _NUMBER.findall(words)]
    if _COLUMN_FIRST.search(words) or numbers != [index + 1 for index in named]:
        return None
    following = iter(actual)
    return _NUMBER.sub(lambda match: str(next(following) + 1), words)


def _only(cells: Sequence[tuple[int, int]] | None) -> tuple[int, int] | None:
    return cells[0] if cells is not None and len(cells) == 1 else None
