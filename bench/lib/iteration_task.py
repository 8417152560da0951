"""Task of bench/iteration.py: prompts of a fixed number of tokens, and a reward. Standard library only."""

from __future__ import annotations

import random
import string

from bench.lib.recorded_dialogues import GROUP


def prompts(rows: int, read: int, seed: int = 0) -> list[str]:
    """Return capitals and digits, one token each for the pocket policy's tokenizer; every GROUP rows share a prompt."""
    rng = random.Random(seed)
    texts = ["".join(rng.choices(string.ascii_uppercase + string.digits, k=read)) for _ in range(-(-rows // GROUP))]
    return [texts[row // GROUP] for row in range(rows)]


def reward(text: str) -> float:
    """Return the share of distinct characters, which is cheap to compute and rarely equal for two texts."""
    return len(set(text)) / max(1, len(text))
