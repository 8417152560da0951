"""The number by which sites recognise a task: its group's seed if the trainer has none."""

from __future__ import annotations

import hashlib

BITS = 52
"""Small enough to be exact in JavaScript, large enough for millions of different tasks."""


def task_seed(*parts: str) -> int:
    """Return the same number, 0 to 2^52 − 1, for the same task: its environment, prompt and other defining texts."""
    text = "\0".join(parts).encode(errors="surrogatepass")
    return int.from_bytes(hashlib.sha256(text).digest()[:8]) >> (64 - BITS)
