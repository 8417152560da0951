"""Request and response schemas of questions to policies about evaluations."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from ninja import Path, Schema
from pydantic import Field

from trainer.journal.branches import MAX_ATTEMPTS, MAX_SAMPLES, Corrections, Survey
from webapp.api.schemas.shared_schemas import Slug, StrictSchema

EvaluationQuestionKind = Literal["corrections", "thoughts"]
EvaluationQuestionSlug = Annotated[Slug, Path(description="The question's public id, from the answer that made it.")]


class NewEvaluationQuestion(StrictSchema):
    """A question to ask about an evaluation (docs/branching.md)."""

    kind: EvaluationQuestionKind = Field(
        default="corrections",
        description="corrections: what putting the first false position of lost attempts right wins; thoughts: the "
        "influence of thoughts on the next actions.",
    )
    suite: str | None = Field(
        default=None, min_length=1, max_length=100, description="Omitted: the suite by which the run is judged."
    )
    iteration: int | None = Field(
        default=None, ge=-(2**31), lt=2**31, description="Of the evaluation; omitted: the newest one."
    )
    samples: int | None = Field(
        default=None,
        ge=1,
        le=MAX_SAMPLES,
        description="Continuations of each kind for every attempt, or next actions after each thought; omitted: the "
        "site's choice, fewer for many attempts.",
    )
    attempts: int | None = Field(
        default=None,
        ge=1,
        le=MAX_ATTEMPTS,
        description="Of more attempts, so many are drawn; omitted: 100, and 24 for `thoughts`.",
    )


class EvaluationQuestionOut(Schema):
    """A question to a policy about an evaluation, and its answer once there is one."""

    slug: str
    url: str = Field(description="The evaluation tab of the run.")
    run: str = Field(description="Slug.")
    kind: EvaluationQuestionKind
    suite: str
    iteration: int = Field(description="Finished iterations at the evaluation.")
    samples: int
    attempts: int = Field(description="Maximum number of attempts that are played on from.")
    author: str | None = Field(description="Username; null outside the team.")
    state: Literal["queued", "running", "done", "failed"]
    message: str = Field(description="What it waits for, its progress, which weights answered, or why it failed.")
    done: int = Field(description="Finished continuations; of `thoughts`, finished turns.")
    total: int = Field(description="Planned ones; 0: not known yet.")
    used_checkpoint: int | None = Field(description="Finished iterations of the weights that answer.")
    encoded: bool | None = Field(description="Whether the dialogue's token ids come from its recorded text.")
    result: Corrections | Survey | None = Field(description="Answer by kind; null until there is one.")
    requested_at: datetime
    answered_at: datetime | None


class EvaluationQuestionPage(Schema):
    """A page of a list of questions."""

    items: list[EvaluationQuestionOut]
    next_cursor: str | None = Field(description="`cursor` of the next page; null on the last one.")
