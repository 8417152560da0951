"""Interface between rollout and generation engines: `Sampler`, `SamplingSession` and the exchanged data.

Token ids go in and come out; decoding to text is the caller's job.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from trainer.engines.stop_text import StopText


@dataclass(frozen=True)
class SamplingParams:
    """Sampling settings. `temperature` 0 is greedy decoding.

    `stop` ends responses after a text; an engine that ignores it samples on to the end token.
    """

    temperature: float = 1.0
    max_tokens: int = 96
    stop: StopText | None = None


class DivergedError(RuntimeError):
    """The policy's logits are not finite, so no token can be sampled. The message suggests a remedy."""


DIVERGED_MESSAGE = (
    "the policy has diverged: its logits are not finite. Earlier checkpoints are kept: resume from one of them with a "
    "smaller optimizer.policy_lr"
)


@dataclass
class SampledResponse:
    """A sampled response.

    Attributes:
        ids: (n,) sampled token ids, including the end token if it was sampled.
        logprobs: (n,) log-probabilities under the tempered distribution, nats; NaN if the engine
            does not report them.
        entropies: (n,) entropies of that distribution, nats; NaN if the engine does not report them.
        ended: whether the last token is an end token (otherwise the response was cut).
        stopped: whether the response was cut after the stop text (otherwise at `max_tokens`).
        reported_tokens: token count reported by the engine, if `ids` are not the model's tokens.
        context_exceeded: there is no response, because the dialogue no longer fits into the model's context.
        version: version of the weights that sampled it, if the owner of the sampler counts versions.
    """

    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    entropies: list[float] = field(default_factory=list)
    ended: bool = False
    stopped: bool = False
    reported_tokens: int | None = None
    context_exceeded: bool = False
    version: int = 0

    @property
    def truncated(self) -> bool:
        """True if the response was cut at the limit of tokens."""
        return not (self.ended or self.stopped)

    @property
    def tokens(self) -> int:
        """Number of tokens that the model generated."""
        return len(self.ids) if self.reported_tokens is None else self.reported_tokens


class TokenListener(Protocol):
    """Receiver of partial responses while they are sampled."""

    def select_rows(self, rows: Sequence[int]) -> Sequence[int]:
        """Select the active rows whose partial responses `on_tokens` receives."""

    def on_tokens(self, row: int, ids: list[int]) -> None:
        """Receive all ids of the row's response so far."""


class SamplingSession(Protocol):
    """Many dialogues, one per row; an engine keeps their tokens (and usually their KV cache) between turns."""

    def reset_row(self, row: int) -> None:
        """Drop the row's dialogue: its next prompt starts from the first token. Its random stream continues."""

    def generate(self, prompts: Mapping[int, list[int]]) -> Iterator[tuple[int, SampledResponse]]:
        """Append tokens to some rows and sample a response for each, until no row has an open prompt.

        Args:
            prompts: ids to append to a row's dialogue (which includes its own earlier responses), by row.
        Yields:
            (row, response) in the order in which rows finish, including rows appended meanwhile.
        """

    def append(self, row: int, ids: list[int]) -> None:
        """Give a row its next prompt while `generate` is iterated; its previous response must have been yielded.

        The engine may read the prompt at once or after the current round.
        """


class Sampler(Protocol):
    """A generation engine with the policy's current weights."""

    def session(
        self, seeds: Sequence[int], params: SamplingParams, listener: TokenListener | None = None
    ) -> SamplingSession:
        """Open a session of `len(seeds)` rows; a row's samples depend only on `seeds[row]`, not on other rows."""

    def weights_updated(self, version: int = 0) -> None:
        """Note that the learner's weights have changed: later sessions use the new ones.

        Args:
            version: version of the weights, if the owner of the sampler counts versions.
        """

    def sleep(self) -> None:
        """Release the device to the learner as far as the engine can; no session is open."""

    def wake_up(self) -> None:
        """Take the device back before the next session. No-op when awake."""

    def close(self) -> None:
        """Release everything the sampler started; it cannot be used afterwards."""
