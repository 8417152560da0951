"""Words and n-grams of a text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def words(text: str) -> list[str]:
    """Words and numbers in lower case, without punctuation."""
    return re.findall(r"\w+", text.lower())


def ngrams(items: Sequence[T], n: int) -> list[tuple[T, ...]]:
    """All n-grams, in order, with repetitions."""
    return [tuple(items[i : i + n]) for i in range(len(items) - n + 1)]
