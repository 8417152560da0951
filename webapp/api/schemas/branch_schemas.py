"""Request and response schemas of questions to policies about recorded trajectories."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from ninja import Path, Schema
from pydantic import Field

from trainer.journal.branches import MAX_SAMPLES, Branches, Change, Influences, Values
from webapp.api.schemas.shared_schemas import Slug, StrictSchema, Whole

QuestionKind = Literal["branch", "value", "thoughts"]
QuestionSlug = Annotated[Slug, Path(description="The question's public id, from the answer that made it.")]


class NewQuestion(StrictSchema):
    """A question to ask about a trajectory, recorded or a branch (docs/branching.md)."""

    trajectory: Slug = Field(description="Slug of the trajectory, which has ended.")
    kind: QuestionKind = Field(
        default="branch",
        description="branch: play on from a turn; value: the share solved from every turn; thoughts: whether its "
        "thoughts matter.",
    )
    turn: int | None = Field(
        default=None,
        ge=0,
        lt=2**16,
        description="Of `branch`, which needs it: play on before the response of this turn, 0-based.",
    )
    samples: int = Field(
        default=8, ge=1, le=MAX_SAMPLES, description="Branches; of the other kinds: samples at every turn."
    )
    temperature: float | None = Field(
        default=None, ge=0, le=10, description="0: greedy; omitted: as the trajectory was sampled."
    )
    change: Change = Field(
        default=Change(), description="Of `branch`: one of state, thought and answer, changed at the turn."
    )
    fresh_luck: bool = Field(
        default=False,
        description="Of `branch`: new randomness of the environment in each branch; otherwise as in the recording.",
    )
    weights_run: Slug | None = Field(
        default=None, description="Slug of a run of your teams whose weights play on; omitted: the trajectory's run."
    )
    checkpoint: Whole | None = Field(
        default=None,
        description="Finished iterations of the weights, 0: the initial policy; omitted: the newest ones of "
        "`weights_run`, or without it the weights that sampled the trajectory. If they were not kept, the nearest kept "
        "ones answer.",
    )


class BranchTurn(Schema):
    """A turn that a policy played on, in short; the whole turn is part of the branch's trajectory."""

    turn: int = Field(description="0-based.")
    thought: str
    answer: str
    actions: list[str] = Field(description="Names of its actions; of an illegal one, the text.")
    problem: str | None = Field(description="Why its format is not valid; null: it is.")


class BranchOut(Schema):
    """A branch: a trajectory that begins with the recorded turns. All operations on one trajectory take its slug."""

    number: int = Field(description="0-based.")
    slug: str
    url: str = Field(description="Its page, with the player.")
    status: Literal["waiting", "playing", "success", "failed", "interrupted", "unknown"]
    end: str = Field(description="Why it ended: terminated, turns, actions, truncated, interrupted; empty before.")
    end_reason: str = Field(description="How it ended, as a code; empty before.")
    total_reward: float | None = Field(description="With the recorded turns; null: none was recorded.")
    turns: int = Field(description="With the recorded ones.")
    new_turns: list[BranchTurn] = Field(description="From the position on; very long ones are left out.")
    error: str


class QuestionOut(Schema):
    """A question to a policy about a recorded trajectory, and its answer once there is one."""

    slug: str
    url: str = Field(description="Page of the trajectory, at the turn.")
    trajectory: str = Field(description="Slug.")
    kind: QuestionKind
    turn: int | None = Field(description="Of `branch`: the position is before this turn's response, 0-based.")
    samples: int
    temperature: float | None = Field(description="null: as the trajectory was sampled.")
    change: Change
    fresh_luck: bool
    weights_run: str | None = Field(
        description="Slug of the run of the weights; null: the trajectory's run, or you are outside its team."
    )
    checkpoint: int | None = Field(description="Finished iterations of the wanted weights; null: as asked by default.")
    author: str | None = Field(description="Username; null outside the team.")
    state: Literal["queued", "running", "done", "failed"]
    message: str = Field(description="What it waits for, its progress, which weights answered, or why it failed.")
    done: int = Field(description="Finished samples.")
    total: int = Field(description="Planned samples.")
    used_checkpoint: int | None = Field(description="Finished iterations of the weights that answer.")
    encoded: bool | None = Field(description="Whether the dialogue's token ids come from its recorded text.")
    result: Branches | Values | Influences | None = Field(description="Answer by kind; null until there is one.")
    requested_at: datetime
    answered_at: datetime | None


class QuestionDetail(QuestionOut):
    """A question with its branches."""

    branches: list[BranchOut] = Field(description="Of `branch`, by number, also while they are played.")


class QuestionPage(Schema):
    """A page of a list of questions."""

    items: list[QuestionOut]
    next_cursor: str | None = Field(description="`cursor` of the next page; null on the last one.")
