"""Texts of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class TokenPieces:
    """Texts of the tokens of a tokenizer."""

    def __init__(self, processing_class: Any) -> None:
        self._tokenizer = getattr(processing_class, "tokenizer", processing_class)
        self._pieces: dict[int, str] = {}

    def texts(self, ids: Sequence[int]) -> list[str]:
        """Return the text of each token, decoded once; one that ends inside a character has a replacement character."""
        for token in ids:
            if token not in self._pieces:
                self._pieces[token] = str(self._tokenizer.decode([token]))
        return [self._pieces[token] for token in ids]

    def text(self, ids: Sequence[int]) -> str:
        """Return the text of the tokens without special tokens."""
        return str(self._tokenizer.decode(ids, skip_special_tokens=True))
