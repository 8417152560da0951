"""The number by which sites recognise a task again: the seed of its group, where the trainer has none."""

from __future__ import annotations

import hashlib

BITS = 52
"""Small enough to be exact in JavaScript, large enough for millions of different tasks."""


def task_seed(*parts: str) -> int:
    """The same number, 0 to 2^52 − 1, for the same task: its environment, prompt and whatever else defines it."""
    text = "\0".join(parts).encode(errors="surrogatepass")
    return int.from_bytes(hashlib.sha256(text).digest()[:8]) >> (64 - BITS)
