"""Thoughts whose claims about the state are made false, one by one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

from envs.base import Claim
from envs.claims.claim_rules import CARDINALS, ORDINALS

Reader = Callable[[str], Sequence[Claim] | None]
"""Returns the claims of a thought, compared with the state."""

_ROUNDS = 3
_MAX_CANDIDATES = 40  # for one claim, each of which is read
_NUMBER = re.compile(r"\d+")
_STEPS = (1, -1, 2, -2, 3)  # added to a number
_OPPOSITES = (
    ("above", "below"), ("over", "under"), ("up", "down"), ("left", "right"), ("north", "south"), ("east", "west"),
    ("top", "bottom"), ("leftmost", "rightmost"), ("row", "column"), ("more", "fewer"),
    ("box", "target"), ("hole", "goal"), ("wall", "box"), ("product", "search"), ("results", "product"),
    ("higher", "lower"), ("greater", "less"), ("larger", "smaller"), ("closer", "farther"), ("on", "below"),
)  # fmt: skip
_WORDS = {word: other for pair in _OPPOSITES for word, other in (pair, pair[::-1])} | {
    word: following for row in (CARDINALS, ORDINALS) for word, following in pairwise((*row, row[0]))
}
_WORD = re.compile(rf"\b({'|'.join(sorted(_WORDS, key=len, reverse=True))})\b", re.IGNORECASE)


@dataclass(frozen=True)
class FalseThought:
    """A thought with false claims.

    Attributes:
        text: the thought.
        claims: number of claims in the original thought.
        kept: claims that are still true, since no change of their words made them false.
    """

    text: str
    claims: int
    kept: int


def make_claims_false(thought: str, read: Reader) -> FalseThought | None:
    """Return the thought with every claim about the state false, as `read` judges them; None if it has no claim.

    Only the words of claims are changed: "Target 3,2" becomes "Target 3,3". All claims are read again after each
    change, because positions are judged together.
    """
    original = list(read(thought) or ())
    if not original:
        return None
    text = thought
    for _ in range(_ROUNDS):
        true = [claim for claim in read(text) or () if claim.true]
        if not true:
            break
        for claim in reversed(true):  # from the end, so that the places of earlier ones remain
            text = _falsified(text, claim, read)
    kept = sum(claim.true for claim in read(text) or ())
    return FalseThought(text, len(original), kept)


def _falsified(thought: str, claim: Claim, read: Reader) -> str:
    """Return the thought with one claim made false; the same thought if no change does."""
    for words in islice(_changed(thought[claim.start : claim.end], _names(thought, read)), _MAX_CANDIDATES):
        candidate = thought[: claim.start] + words + thought[claim.end :]
        there = range(claim.start, claim.start + len(words))
        claims = [found for found in read(candidate) or () if found.start in there or found.end - 1 in there]
        if claims and not any(found.true for found in claims):
            return candidate
    return thought


def _names(thought: str, read: Reader) -> list[str]:
    """Return the names that the claims are about: arms, options of a page."""
    return sorted({mark for claim in read(thought) or () for mark in claim.marks or ()})


def _changed(words: str, names: Sequence[str]) -> Iterator[str]:
    """Yield the words of a claim with one number, word or name changed; the last number first."""
    numbers = list(_NUMBER.finditer(words))
    for step in _STEPS:
        for match in reversed(numbers):
            if (number := int(match[0]) + step) >= 0:
                yield words[: match.start()] + str(number) + words[match.end() :]
    for match in _WORD.finditer(words):
        yield words[: match.start()] + _like(_WORDS[match[0].lower()], match[0]) + words[match.end() :]
    for name in names:
        if name in words:
            yield from (words.replace(name, other) for other in names if other != name)


def _like(word: str, original: str) -> str:
    return word.capitalize() if original[:1].isupper() else word
