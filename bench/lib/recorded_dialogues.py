"""Synthetic dialogues for updates: token ids, which tokens were sampled, rewards. Plain lists, no tensors.

Every contender gets the same ones; processes read them from a file.
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
    """Of `rest`, under the policy before its update; 0 where nothing was drawn."""

    def __len__(self) -> int:
        return len(self.prompt) + len(self.rest)

    @property
    def trained(self) -> int:
        """Number of sampled tokens."""
        return sum(self.sampled)


def even(rows: int, read: int, written: int, vocabulary: int, seed: int = 0) -> list[Dialogue]:
    """One turn each: `read` tokens, then `written` sampled ones."""
    rng = random.Random(seed)
    prompts = [_ids(rng, read, vocabulary) for _ in range(-(-rows // GROUP))]
    return [
        Dialogue(prompts[row // GROUP], _ids(rng, written, vocabulary), [True] * written, rng.random())
        for row in range(rows)
    ]


def ragged(rows: int, read: int, written: int, vocabulary: int, turns: int = 5, seed: int = 0) -> list[Dialogue]:
    """Dialogues of 1 to `turns` turns with responses of a quarter to the whole of `written`, and half of that read
    in between."""
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
