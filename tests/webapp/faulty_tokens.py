"""Attempts of another trainer with planted faults of its tokens: what it trains on, and what its policy reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import echoscope

OPENING = ["<s>", "<user>", "Guess", "the", "word", ".", "<assistant>"]
FIRST = ["<think>", "vowels", "first", "</think>", "CRANE", "<end>"]
ANSWER = ["<user>", "_", "_", "A", "_", "_", "<assistant>"]
SECOND = ["<think>", "A", "is", "third", "</think>", "PLATE", "<end>"]
_IDS = {word: number for number, word in enumerate(dict.fromkeys([*OPENING, *FIRST, *ANSWER, *SECOND, "<stop>"]))}


@dataclass
class Dialogue:
    """Tokens in reading order, one word each."""

    words: list[str] = field(default_factory=list)
    sampled: list[bool] = field(default_factory=list)
    in_loss: list[bool] = field(default_factory=list)
    restarts: list[int] = field(default_factory=list)

    def read(self, words: Sequence[str], *, restarts: bool = False, in_loss: bool = False) -> None:
        self.restarts += [len(self.words)] if restarts else []
        self._add(words, sampled=False, in_loss=in_loss)

    def write(self, words: Sequence[str]) -> None:
        self._add(words, sampled=True, in_loss=True)

    def _add(self, words: Sequence[str], *, sampled: bool, in_loss: bool) -> None:
        self.words += words
        self.sampled += [sampled] * len(words)
        self.in_loss += [in_loss] * len(words)


def dialogue(opening: Sequence[str] = OPENING, history: Sequence[str] = FIRST, stop: bool = False) -> Dialogue:
    """Two turns, each with its whole prompt."""
    made = Dialogue()
    made.read(opening)
    made.write(FIRST)
    if stop:
        made.read(["<stop>"], in_loss=True)
    made.read([*opening, *history, *ANSWER], restarts=True)
    made.write(SECOND)
    return made


def record(folder: Path, title: str, made: Dialogue, *, difference: float = 0.01) -> None:
    """Record a run of one attempt with these tokens, the trainer's log-probabilities lower by `difference`."""
    run = echoscope.init(title, folder=folder)
    (attempt,) = run.group(1, prompt="Guess.", iteration=1, environment="Wordle")
    attempt.turn(state="Guess the word.", response=" ".join(FIRST[:-1]), reward=0.0)
    attempt.turn(state="_ _ A _ _", response=" ".join(SECOND[:-1]), reward=1.0)
    attempt.finish(success=True)
    logprobs = [-0.5] * len(made.words)
    attempt.tokens(
        [_IDS[word] for word in made.words],
        sampled=made.sampled,
        texts=[f"{word} " for word in made.words],
        in_loss=made.in_loss,
        restarts=made.restarts,
        logprobs=logprobs,
        trainer_logprobs=[value - difference for value in logprobs],
        advantages=[1.0] * len(made.words),
    )
    run.finish()


def shifted() -> Dialogue:
    """Return the dialogue with its loss mask one token to the left."""
    made = dialogue()
    made.in_loss = [*made.in_loss[1:], False]
    return made


FAULTS = {
    "none": (dialogue(), 0.01),
    "shifted mask": (shifted(), 0.01),
    "dropped thought": (dialogue(history=FIRST[FIRST.index("CRANE") :]), 0.01),
    "second start token": (dialogue(opening=["<s>", *OPENING]), 0.01),
    "stop token in the loss": (dialogue(stop=True), 0.01),
    "old weights": (dialogue(), 0.8),
}
"""Tokens and difference of log-probabilities by fault."""
