"""Synthetic dialogues for updates: token ids, a mask of sampled tokens, rewards. Plain lists, no tensors.

Every contender gets the same dialogues; processes read them from a file.
"""

from __future__ import annotations

import json
import random
from dataclasses import asdict, dataclass, field
from pathlib import Path

GROUP = 8
"""Dialogues that share their first prompt and are compared with each other."""


@dataclass(frozen=True)
class Dialogue:
    """`prompt` is read; `rest` follows it, and `sampled` marks the tokens of `rest` that the policy sampled."""

    prompt: list[int]
    rest: list[int]
    sampled: list[bool]
    reward: float
    logprobs: list[float] = field(default_factory=list)
    """Log-probabilities of `rest` under the policy before its update; 0 where nothing was sampled."""

    def __len__(self) -> int:
        return len(self.prompt) + len(self.rest)

    @property
    def trained(self) -> int:
        """Return the number of sampled tokens."""
        return sum(self.sampled)


def even(rows: int, read: int, written: int, vocabulary: int, seed: int = 0) -> list[Dialogue]:
    """Make dialogues of one turn: `read` tokens, then `written` sampled tokens."""
    rng = random.Random(seed)
    prompts = [_ids(rng, read, vocabulary) for _ in range(-(-rows // GROUP))]
    return [
        Dialogue(prompts[row // GROUP], _ids(rng, written, vocabulary), [True] * written, rng.random())
        for row in range(rows)
    ]


def ragged(rows: int, read: int, written: int, vocabulary: int, turns: int = 5, seed: int = 0) -> list[Dialogue]:
    """Make dialogues of 1 to `turns` turns: responses of a quarter to all of `written`, half of that read between."""
    rng = random.Random(seed)
    prompts = [_ids(rng, rng.randint(read // 2, read), vocabulary) for _ in range(-(-rows // GROUP))]
    dialogues = []
    for row in range(rows):
        rest: list[int] = []
        sampled: list[bool] = []
        for turn in range(rng.randint(1, turns)):
            if turn:
                seen = _ids(rng, rng.randint(written // 4, written // 2), vocabulary)
                rest, sampled = rest + seen, sampled + [False] * len(seen)
            response = _ids(rng, rng.randint(max(1, written // 4), written), vocabulary)
            rest, sampled = rest + response, sampled + [True] * len(response)
        dialogues.append(Dialogue(prompts[row // GROUP], rest, sampled, rng.random()))
    return dialogues


def _ids(rng: random.Random, count: int, vocabulary: int) -> list[int]:
    return [rng.randrange(2, vocabulary) for _ in range(count)]


def save(dialogues: list[Dialogue], path: Path) -> None:
    path.write_text(json.dumps([asdict(dialogue) for dialogue in dialogues]), encoding="utf-8")


def load(path: Path) -> list[Dialogue]:
    return [Dialogue(**record) for record in json.loads(path.read_text(encoding="utf-8"))]
