"""Response schemas of the tokens of a trajectory."""

from __future__ import annotations

from typing import Literal

from ninja import Schema
from pydantic import Field

Numbers = list[float | None] | None


class TokenSegment(Schema):
    """Adjacent tokens of one kind."""

    kind: Literal["template", "system", "task", "observation", "response", "other"]
    turn: int = Field(description="0-based.")
    start: int = Field(description="Position of its first token, 0-based.")
    tokens: int
    sampled: bool
    in_loss: bool
    restarts: bool = Field(description="The policy read it as the beginning of another context.")


class TokenState(Schema):
    """Whether a trajectory has tokens, or a worker computes them from a checkpoint (docs/player.md)."""

    state: Literal["recorded", "computed", "queued", "running", "failed", "missing"]
    message: str = Field(description="Why there are none, or what the worker does; of computed ones, what they are.")
    computed_from: int | None = Field(
        description="Finished iterations of the weights with which they were computed; null: they were not computed."
    )
    sampled_after: int = Field(description="Finished iterations of the weights that sampled the trajectory.")


class TrajectoryTokensOut(TokenState):
    """All tokens of a trajectory in reading order, in parallel lists; numbers are null where unknown."""

    segments: list[TokenSegment]
    texts: list[str]
    ids: list[int]
    logprobs: Numbers = Field(description="Sampler's log-probability, nats; if computed, of the weights above.")
    entropies: Numbers = Field(description="Entropy of the same distribution, nats.")
    differences: Numbers = Field(description="Trainer's minus sampler's log-probability, nats.")
    ratios: Numbers = Field(description="Importance ratio in the last optimiser step.")
    advantages: Numbers
    clipped: list[int] | None = Field(description="Positions whose gradient a bound cut off; null: not known.")
    retokenised: list[int] | None = Field(
        description="Positions at which the text has another token when it is encoded again; null if computed."
    )
