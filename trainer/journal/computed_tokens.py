"""Tokens of an attempt that were computed from a checkpoint afterwards: the output of `python -m trainer tokens`.

Imports no torch: sites read it, and trust nothing in it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator

from trainer.journal import token_arrays
from trainer.journal.token_arrays import MAX_TEXT, MAX_TOKENS, Segment, TokenArrays, TokenArraysError, TokenKind

MAX_BYTES = 64 * 2**20
"""Maximum size of the output as JSON."""
_Count = Annotated[int, Field(ge=1, le=MAX_TOKENS)]
_Id = Annotated[int, Field(ge=0, lt=2**32)]
_Iteration = Annotated[int, Field(ge=-(2**31), lt=2**31)]


class ComputedSegment(BaseModel):
    """Adjacent tokens of one kind, in reading order; as `token_arrays.Segment`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    kind: TokenKind
    turn: int = Field(ge=0, lt=2**16)
    tokens: _Count
    sampled: bool
    in_loss: bool
    restarts: bool


class ComputedTokens(BaseModel):
    """All tokens of an attempt in reading order, as parallel lists.

    Attributes:
        trajectory: its id in the journal.
        checkpoint: finished iterations of the weights.
        sampled_after: finished iterations of the weights that the run had when it sampled the attempt.
        temperature: divisor of the logits, as in the attempt's rollout.
        segments: their tokens add up to the lists; `in_loss` as the trainer's mask had it.
        ids, texts: of the responses, from their recorded text.
        logprobs, entropies: under these weights, nats; None for the first token of a context, which nothing predicts.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    trajectory: str = Field(max_length=100)
    checkpoint: _Iteration
    sampled_after: _Iteration
    temperature: FiniteFloat = Field(gt=0)
    segments: list[ComputedSegment] = Field(max_length=MAX_TOKENS)
    ids: list[_Id] = Field(max_length=MAX_TOKENS)
    texts: list[str] = Field(max_length=MAX_TOKENS)
    logprobs: list[FiniteFloat | None] = Field(max_length=MAX_TOKENS)
    entropies: list[FiniteFloat | None] = Field(max_length=MAX_TOKENS)

    @model_validator(mode="after")
    def check_lengths(self) -> Self:
        """Require parallel lists, and turns in order."""
        count = sum(segment.tokens for segment in self.segments)
        if {len(self.ids), len(self.texts), len(self.logprobs), len(self.entropies)} != {count}:
            raise ValueError("the lists differ in length")
        turns = [segment.turn for segment in self.segments]
        if turns != sorted(turns):
            raise ValueError("the turns are not in order")
        if (length := sum(map(len, self.texts))) > MAX_TEXT:
            raise ValueError(f"the text has {length:,} characters, and at most {MAX_TEXT:,} are shown")
        return self

    def as_arrays(self, turns: int) -> TokenArrays:
        """Return the tokens as recorded ones are stored; values of sampler and update are missing.

        Args:
            turns: number of turns of the attempt.
        Raises:
            TokenArraysError: a token belongs to a later turn.
        """
        sampled = np.repeat([segment.sampled for segment in self.segments], self._sizes()).astype(np.bool_)
        turn_of = np.repeat([segment.turn for segment in self.segments], self._sizes())
        if turn_of.size and int(turn_of.max()) >= turns:
            raise TokenArraysError(f"a token belongs to turn {int(turn_of.max())} of {turns}")
        ids, lengths = np.asarray(self.ids, np.uint32), np.asarray([len(text) for text in self.texts], np.int64)
        logprobs, entropies = _numbers(self.logprobs), _numbers(self.entropies)
        return token_arrays.arrays(
            turns=np.bincount(turn_of[sampled].astype(np.int64), minlength=turns).tolist(),
            ids=ids[sampled].tolist(),
            lengths=lengths[sampled].tolist(),
            logprobs=logprobs[sampled],
            entropies=entropies[sampled],
            advantages=None,
            unlearned="not_sent",
            context=token_arrays.context(
                [Segment(**segment.model_dump()) for segment in self.segments],
                ids[~sampled].tolist(),
                lengths[~sampled].tolist(),
                "".join(self.texts),
                (logprobs[~sampled], entropies[~sampled]),
            ),
        )

    def _sizes(self) -> list[int]:
        return [segment.tokens for segment in self.segments]


def weights_of(split: str, iteration: int) -> int:
    """Return the finished iterations of the weights that sample the attempts of an iteration or evaluation."""
    return iteration - 1 if split == "train" else iteration


def nearest_checkpoint(kept: Collection[int], wanted: int) -> int | None:
    """Return the newest kept checkpoint up to the wanted one, otherwise the first after it; None without any."""
    before = [iteration for iteration in kept if iteration <= wanted]
    return max(before) if before else min(kept, default=None)


def _numbers(values: Sequence[Any]) -> NDArray[np.float64]:
    return np.asarray([np.nan if value is None else value for value in values], np.float64)
