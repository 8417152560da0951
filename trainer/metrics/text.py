"""Words and n-grams of a text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def words(text: str) -> list[str]:
    """Return all words and numbers in lower case, without punctuation."""
    return re.findall(r"\w+", text.lower())


def template(text: str) -> str:
    """Normalise case, spaces and numbers (to “#”), so that repetitions of a sentence are equal."""
    return " ".join(re.sub(r"[0-9]+", "#", text.lower()).split())


def ngrams(items: Sequence[T], n: int) -> list[tuple[T, ...]]:
    """Return all n-grams in order, with repetitions."""
    return [tuple(items[i : i + n]) for i in range(len(items) - n + 1)]
