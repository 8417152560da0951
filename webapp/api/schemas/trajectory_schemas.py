"""Request and response schemas of trajectories and their share links."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from ninja import Schema
from pydantic import Field

from webapp.api.schemas.shared_schemas import StrictSchema, Whole


class LostAt(Schema):
    """The first action after which success was out of reach."""

    turn: int = Field(description="0-based.")
    action: int = Field(description="0-based, within the turn.")
    reason: str


class TrajectoryOut(Schema):
    """One episode, without its turns."""

    slug: str
    url: str = Field(description="Its page, with the player.")
    run: str = Field(description="Slug.")
    key: str = Field(description="Its id in the journal.")
    iteration: int
    split: Literal["train", "eval", "branch"]
    suite: str = Field(description="Evaluation suite; empty for training.")
    environment: str
    group: int = Field(description="0-based within iteration, split and suite; of a branch: of its question.")
    member: int = Field(description="0-based within the group.")
    status: Literal["waiting", "playing", "success", "failed", "interrupted", "unknown"]
    end: str = Field(description="Why it ended: terminated, turns, actions, truncated, interrupted; empty before.")
    end_reason: str = Field(
        description="How it ended, as a code: solved, why it was lost (box_corner, …), what ran out; empty before."
    )
    total_reward: float | None = Field(description="null: none was recorded.")
    turns: int
    actions: int = Field(description="Executed actions.")
    tokens: int | None = Field(description="Sampled tokens; null: not known, in runs of other trainers.")
    format_error: bool | None = Field(
        description="At least one turn broke the format; null: not judged, in runs of other trainers."
    )
    true_claims: int | None = Field(
        description="Statements of its thoughts that hold; null where thoughts were not compared with the state."
    )
    false_claims: int | None = Field(description="Statements of its thoughts that do not hold; null likewise.")
    false_claim_kinds: list[str] = Field(description="What its false claims are about (docs/claims.md), sorted.")
    worst_mark: Literal["none", "inaccuracy", "mistake", "blunder", "unknown"] | None = Field(
        description="Its worst mark; `unknown` where no solver judges it, null until it has been judged after its end."
    )
    first_mistake_turn: int | None = Field(
        description="Turn of its first mistake or blunder, 0-based; null where there is none."
    )
    commentary: str = Field(description="A comment of a sentence on its play; empty until it has been judged.")
    kept: bool | None = Field(description="Whether the update used its group; null until that is decided.")
    training_use: str = Field(
        description="`trained` if the update learnt from it, else the code of the reason why not (docs/explorer.md); "
        "empty until that is decided, and for evaluations."
    )
    mismatch: float | None = Field(
        description="Mean absolute difference of trainer's and sampler's log-probabilities, nats; null where unknown."
    )
    lost_at: LostAt | None
    error: str


class MarkOut(Schema):
    """A mistake, judged by the environment's solver (docs/player.md)."""

    turn: int = Field(description="0-based.")
    action: int = Field(description="0-based, within the turn.")
    kind: Literal["inaccuracy", "mistake", "blunder"]
    glyph: Literal["?!", "?", "??"]
    played: str = Field(description="The action.")
    better: list[str] = Field(description="The best actions instead, best first.")
    value: float = Field(description="Value of best play before it, 0 to 1: a chance of success under random dynamics.")
    kept: float = Field(description="Value that the action left; under random dynamics its expectation.")
    loss: float = Field(description="`value` − `kept`.")
    sentence: str
    cells: list[list[int]] = Field(description="Row and column, 0-based, of the box or player that it is about.")
    origin: list[int] = Field(description="Row and column of the player before it; empty without a grid.")
    dead_end: bool = Field(description="Success was impossible after it.")


class VerdictOut(Schema):
    """The reason why a failed attempt was not solved, and the position that shows it."""

    kind: Literal["mistake", "slip", "budget"] = Field(
        description="A mistake, bad luck after a good action, or turns and actions ran out."
    )
    turn: int = Field(description="0-based.")
    action: int = Field(description="0-based, within the turn; -1: its start.")
    sentence: str


class TrajectoryDetail(Schema):
    """One episode with its prompt, its first board and its turns."""

    trajectory: TrajectoryOut
    seed: int
    prompt: str = Field(description="The task, before the first state.")
    board: dict[str, Any] = Field(description="Before the first turn.")
    hint: dict[str, Any] | None = Field(description="Solver advice before the first turn.")
    turns: list[dict[str, Any]] = Field(description="The journal's turn events (docs/journal.md), in order.")
    marks: list[MarkOut] = Field(description="Its mistakes in order; empty where the environment has no solver.")
    verdict: VerdictOut | None = Field(
        description="Of a failed attempt; null otherwise, and where the solver is silent."
    )
    recorded: bool = Field(description="Of a run of another trainer: its responses have no format of Echoscope's.")
    question: str | None = Field(
        description="Of a branch: slug of the question that it answers (docs/branching.md); null of others."
    )


class TrajectoryPage(Schema):
    """A page of a list of trajectories."""

    items: list[TrajectoryOut]
    next_cursor: str | None = Field(description="`cursor` of the next page; null on the last one.")


class ShareOut(Schema):
    """A share link: anyone who has it can see its trajectory."""

    token: str
    url: str
    trajectory: str = Field(description="Slug.")
    author: str | None
    turn: int | None = Field(description="0-based: where the player opens.")
    action: int | None
    indexable: bool = Field(description="Whether search engines may index it.")
    views: int
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


class NewShare(StrictSchema):
    """A share link to make."""

    expires_at: datetime | None = Field(default=None, description="With a time zone; omitted = never.")
    turn: Whole | None = Field(default=None, description="0-based: where the player opens.")
    action: Whole | None = Field(default=None, description="0-based, within the turn.")
    indexable: bool = False
