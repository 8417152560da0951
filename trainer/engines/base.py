"""What a rollout asks of an engine: sessions of many dialogues, extended with new tokens and continued by sampling.

Token ids go in and come out; nothing here decodes text or knows about environments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class SamplingParams:
    """How to draw tokens. `temperature` 0 takes the likeliest.

    `top_k` 0, `top_p` 1 and `min_p` 0 leave the distribution whole; else a token must pass all three.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    max_tokens: int = 96


class DivergedError(RuntimeError):
    """The policy's numbers are no longer finite, so nothing can be drawn. The message says what to do."""


DIVERGED_MESSAGE = (
    "the policy's weights have diverged: its probabilities are no longer finite numbers. Earlier checkpoints are kept; "
    "go on from one of them with a smaller optimizer.policy_lr"
)


@dataclass
class SampledResponse:
    """One response as it was sampled.

    Attributes:
        ids: (n,) sampled token ids, the end token included if it was drawn.
        logprobs: (n,) log-probabilities under the tempered, otherwise unfiltered distribution, nats; NaN where the
            engine does not tell.
        entropies: (n,) entropies of that distribution, nats; NaN where the engine does not tell.
        ended: whether the last token is the end token (else the response was cut at `max_tokens`).
        counted: how many tokens it took by the engine's own count, where `ids` are not the model's tokens.
        full: there is no response, because the dialogue no longer fits into the model's context.
    """

    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    entropies: list[float] = field(default_factory=list)
    ended: bool = False
    counted: int | None = None
    full: bool = False

    @property
    def tokens(self) -> int:
        """How many tokens the model wrote."""
        return len(self.ids) if self.counted is None else self.counted


class TokenListener(Protocol):
    """Someone who wants to see responses while they are written."""

    def select_rows(self, rows: Sequence[int]) -> Sequence[int]:
        """Those of the rows now being continued that somebody is watching."""

    def on_tokens(self, row: int, ids: list[int]) -> None:
        """All ids of the row's response so far."""


class SamplingSession(Protocol):
    """Many dialogues, each a row; what was read and sampled stays in the engine between calls."""

    def reset_row(self, row: int) -> None:
        """Forget what the row holds: its next prompt is read from the first token on. Its random draws go on."""

    def generate(self, prompts: Mapping[int, list[int]]) -> Iterator[tuple[int, SampledResponse]]:
        """Append new tokens to some rows and sample a response for each; goes on until nobody is left to answer.

        Args:
            prompts: row → ids to append to what the row already holds (its own earlier responses included).
        Yields:
            (row, response) as each row finishes, in the order in which they do; rows that were added since included.
        """

    def append(self, row: int, ids: list[int]) -> None:
        """Give a row its next prompt while `generate` is being iterated; the row must have had its response.

        When it is read is the engine's choice: at once, or when everybody of the present round has answered.
        """


class Sampler(Protocol):
    """An engine with the policy's present weights."""

    def session(
        self, seeds: Sequence[int], params: SamplingParams, listener: TokenListener | None = None
    ) -> SamplingSession:
        """Start dialogues; `seeds[row]` alone decides the row's random draws, whatever plays beside it."""

    def weights_updated(self) -> None:
        """The learner's weights have changed: sessions from now on are played with the new ones."""

    def sleep(self) -> None:
        """Leave the device to the learner, as far as the engine can; no session is open."""

    def wake_up(self) -> None:
        """Take the device back before the next session. Harmless when awake."""

    def close(self) -> None:
        """End what was started for this sampler; it cannot be used afterwards."""


@dataclass(frozen=True)
class Actor:
    """Who plays: what dialogues go through, its context in ids, its device in words, its parameters (0: unknown)."""

    sampler: Sampler
    context: int
    device: str
    parameters: int
