"""Product search: BM25 over one text per product.

Constants are the same as in the benchmark's search engine; case and plural endings are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

MAX_RESULTS = 50
"""Maximum number of products of a search."""

_K1, _B = 0.9, 0.4
_MAX_SEARCH_WORDS = 64
_WORD = re.compile(r"[^\W_]+")
_STOP_WORDS_TEXT = """
a an and are as at be but by for if in into is it no not of on or such that the their then there these they this
to was will with
"""
_STOP_WORDS = frozenset(_STOP_WORDS_TEXT.split())


def words(text: str) -> list[str]:
    """Return the terms of a text that a search compares, in order."""
    return [_singular(word) for word in _WORD.findall(text.lower()) if word not in _STOP_WORDS]


def _singular(word: str) -> str:
    """Remove the ending of a plural: "berries" → "berry", "shirts" → "shirt"; "glass" and "bonus" remain."""
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


class Index:
    """BM25 index (Lucene's variant) of fixed texts."""

    def __init__(self, texts: Sequence[str]) -> None:
        import bm25s  # imported here: takes half a second

        self._vocabulary: dict[str, int] = {}
        vocabulary = self._vocabulary
        documents = [[vocabulary.setdefault(word, len(vocabulary)) for word in words(text)] for text in texts]
        self._engine: bm25s.BM25 | None = None
        if vocabulary:
            self._engine = bm25s.BM25(k1=_K1, b=_B, method="lucene", auto_compile=False)
            self._engine.index((documents, dict(vocabulary)), create_empty_token=False, show_progress=False)

    def find(self, text: str) -> tuple[int, ...]:
        """Return indices of the texts that share a term with the search, best first; ties in order of index."""
        terms = [self._vocabulary[word] for word in words(text)[:_MAX_SEARCH_WORDS] if word in self._vocabulary]
        if not terms or self._engine is None:
            return ()
        scores = np.round(self._engine.get_scores(terms), 4)
        best = np.argsort(-scores, kind="stable")[:MAX_RESULTS]
        return tuple(best[scores[best] > 0].tolist())
