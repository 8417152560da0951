"""Numbers as people write them: digits, number words, ordinals."""

from __future__ import annotations

CARDINALS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
ORDINALS = (
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh", "twelfth"
)  # fmt: skip
TIMES = {"never": 0, "once": 1, "twice": 2, "thrice": 3}

COUNT = rf"(?:\d{{1,3}}|a|an|{'|'.join(CARDINALS)})"
"""Pattern of a count: "2", "two", "a"."""
NUMBER = rf"(?:\d{{1,3}}|{'|'.join(CARDINALS)})"
ORDINAL = rf"(?:{'|'.join(ORDINALS)}|\d{{1,2}}(?:st|nd|rd|th))"


def count_of(text: str) -> int:
    """The number of a text that COUNT or NUMBER matches."""
    word = text.lower()
    if word in ("a", "an"):
        return 1
    return CARDINALS.index(word) if word in CARDINALS else int(word)


def ordinal_of(text: str) -> int:
    """The number, from 1, of a text that ORDINAL matches."""
    word = text.lower()
    return ORDINALS.index(word) + 1 if word in ORDINALS else int(word[:-2])
