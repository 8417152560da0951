"""Warnings of calls that must not raise."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def caught_warnings() -> Iterator[list[str]]:
    """The texts of the RuntimeWarnings of a block, in order, once it has ended; libraries warn in other categories."""
    messages: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield messages
    messages += [str(warning.message) for warning in caught if warning.category is RuntimeWarning]
