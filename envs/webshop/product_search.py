"""Search by words: BM25 over one text a product. Which texts are searched and how results are shown is not known here.

Constants are those of the benchmark's search engine; words are compared without case and without a plural's ending.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

RESULTS = 50
"""As many products as a search gives at most."""

_K1, _B = 0.9, 0.4
_LONGEST_SEARCH = 64
_WORD = re.compile(r"[^\W_]+")
_TOO_COMMON_TEXT = """
a an and are as at be but by for if in into is it no not of on or such that the their then there these they this
to was will with
"""
_TOO_COMMON = frozenset(_TOO_COMMON_TEXT.split())


def words(text: str) -> list[str]:
    """The words that a search compares, in their order."""
    return [_singular(word) for word in _WORD.findall(text.lower()) if word not in _TOO_COMMON]


def _singular(word: str) -> str:
    """Without the ending of a plural: "berries" → "berry", "shirts" → "shirt"; "glass" and "bonus" stay."""
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


class Index:
    """BM25 (Lucene's variant) over texts that do not change."""

    def __init__(self, texts: Sequence[str]) -> None:
        import bm25s  # takes half a second to import: only where a shop is searched

        self._vocabulary: dict[str, int] = {}
        known = self._vocabulary
        documents = [[known.setdefault(word, len(known)) for word in words(text)] for text in texts]
        self._engine: bm25s.BM25 | None = None
        if known:
            self._engine = bm25s.BM25(k1=_K1, b=_B, method="lucene", auto_compile=False)
            self._engine.index((documents, dict(known)), create_empty_token=False, show_progress=False)

    def find(self, text: str) -> tuple[int, ...]:
        """Numbers of the texts that share a word with the search, best first; equal ones in their own order."""
        known = [self._vocabulary[word] for word in words(text)[:_LONGEST_SEARCH] if word in self._vocabulary]
        if not known or self._engine is None:
            return ()
        scores = np.round(self._engine.get_scores(known), 4)
        best = np.argsort(-scores, kind="stable")[:RESULTS]
        return tuple(best[scores[best] > 0].tolist())
