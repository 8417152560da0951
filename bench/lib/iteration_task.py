"""What is played in bench/iteration.py: prompts of a known number of tokens, and a reward. Standard library alone."""

from __future__ import annotations

import random
import string

from bench.lib.recorded_dialogues import GROUP


def prompts(rows: int, read: int, seed: int = 0) -> list[str]:
    """Capitals and digits, each a token of its own to the pocket policy's tokenizer; every GROUP rows share one."""
    rng = random.Random(seed)
    texts = ["".join(rng.choices(string.ascii_uppercase + string.digits, k=read)) for _ in range(-(-rows // GROUP))]
    return [texts[row // GROUP] for row in range(rows)]


def reward(text: str) -> float:
    """Share of different characters: quickly told, and seldom the same twice."""
    return len(set(text)) / max(1, len(text))
