"""Excerpts of texts around matches of a full-text search, with its phrases marked."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

BEFORE, LENGTH = 16, 150
"""Characters before the first mark, and in total; excerpts end at spaces."""
_CHUNK = re.compile(r'(-?)(?:"([^"]*)"|(\S+))')
_WORD = re.compile(r"[^\W_]+")

Pieces = list[tuple[str, bool]]
"""Pieces of text, each with True if it matched."""


def search_phrases(query: str) -> list[list[str]]:
    """Return words and phrases of a search in PostgreSQL's websearch syntax, without those excluded by “-”.

    Each is a list of its words. Words joined by punctuation, such as 3,4, are a phrase, as in PostgreSQL.
    """
    phrases: dict[tuple[str, ...], list[str]] = {}
    for minus, quoted, plain in _CHUNK.findall(query):
        words = _WORD.findall(quoted or plain)
        if words and not minus and plain.lower() != "or":
            phrases.setdefault(tuple(word.lower() for word in words), words)
    return list(phrases.values())


def search_patterns(query: str) -> list[re.Pattern[str]]:
    """Return a pattern for each of search_phrases()."""
    between = (r"[\W_]+".join(map(re.escape, words)) for words in search_phrases(query))
    return [re.compile(rf"(?<![^\W_]){words}(?![^\W_])", re.IGNORECASE) for words in between]


def excerpt(text: str, patterns: Sequence[re.Pattern[str]]) -> Pieces:
    """Return the part of the text with most of the patterns, marked; its beginning if none of them occurs."""
    text = " ".join(text.split())
    spans = sorted(
        (match.start(), match.end(), index)
        for index, pattern in enumerate(patterns)
        for match in pattern.finditer(text)
    )
    start, stop = _window(text, *_densest(spans))
    pieces: Pieces = [("… ", False)] if start else []
    at = start
    for begin, end, _ in spans:
        if begin >= stop:
            break
        if begin < at or end > stop:
            continue
        pieces += [(text[at:begin], False), (text[begin:end], True)]
        at = end
    pieces += [(text[at:stop], False), (" …" if stop < len(text) else "", False)]
    return [(piece, marked) for piece, marked in pieces if piece]


def _densest(spans: Sequence[tuple[int, int, int]]) -> tuple[int, int]:
    """Return the first match whose excerpt has most of the patterns; each match is visited twice."""
    best, most, ahead = (0, 0), 0, 0
    counts: Counter[int] = Counter()
    for begin, end, index in spans:
        while ahead < len(spans) and spans[ahead][0] < begin + LENGTH - BEFORE:
            counts[spans[ahead][2]] += 1
            ahead += 1
        if len(counts) > most:
            best, most = (begin, end), len(counts)
        counts[index] -= 1
        if not counts[index]:
            del counts[index]
    return best


def _window(text: str, begin: int, end: int) -> tuple[int, int]:
    """Return start and end of the excerpt around a match, between words."""
    start = max(0, begin - BEFORE)
    if start:
        start = text.find(" ", start, begin) + 1 or begin
    stop = max(end, start + LENGTH)
    if stop < len(text):
        space = text.rfind(" ", end, stop + 1)
        stop = space if space > 0 else stop
    return start, min(stop, len(text))
