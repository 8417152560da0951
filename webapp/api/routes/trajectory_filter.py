"""Filters of trajectories in the query of a request, with the names of the explorer."""

from __future__ import annotations

from typing import Annotated, Literal

from ninja import Schema
from pydantic import Field

from webapp.api.errors import invalid
from webapp.api.schemas.shared_schemas import Whole
from webapp.explorer.trajectory_filters import Filters

Real = Annotated[float, Field(ge=-1e12, le=1e12)]
Name = Annotated[str, Field(max_length=100, pattern=r"^[^\x00]*$")]
Percent = Annotated[float, Field(ge=0, le=100)]


class TrajectoryFilter(Schema):
    """Filters of the explorer, with the same names. Ranges include both ends."""

    iteration: Whole | None = Field(None, description="Only this iteration; 0 is before training.")
    iteration_min: Whole | None = Field(None, description="First iteration.")
    iteration_max: Whole | None = Field(None, description="Last iteration.")
    environment: Name | None = Field(None, description="Name of the environment.")
    split: Literal["train", "eval"] | None = Field(None, description="From training or from evaluations.")
    suite: Name | None = Field(None, description="Name of the evaluation suite.")
    group_number: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = Field(
        None, description="Number of the puzzle's group in its iteration, from 1."
    )
    outcome: (
        Literal["success", "failed", "lost", "truncated", "error", "interrupted", "unknown", "playing", "waiting"]
        | None
    ) = Field(None, description="How it ended; “lost”: in a dead end, from which success was out of reach.")
    reason: Annotated[str, Field(max_length=24, pattern=r"^[a-z_]+$")] | None = Field(
        None, description="How it ended: an `end_reason`."
    )
    break_turn: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = Field(
        None, description="Turn at which it was lost, from 1."
    )
    mark: Literal["none", "inaccuracy", "mistake", "blunder", "unjudged"] | None = Field(
        None, description="Its worst mark; “unjudged”: ended, and without a mark of the environment's solver."
    )
    mistake_turn: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = Field(
        None, description="Turn of its first mistake or blunder, from 1."
    )
    success: bool | None = Field(None, description="Whether the puzzle was solved.")
    reward_min: Real | None = Field(None, description="Least total reward.")
    reward_max: Real | None = Field(None, description="Highest total reward.")
    turns_min: Whole | None = Field(None, description="Least number of turns.")
    turns_max: Whole | None = Field(None, description="Highest number of turns.")
    actions_min: Whole | None = Field(None, description="Least number of executed actions.")
    actions_max: Whole | None = Field(None, description="Highest number of executed actions.")
    tokens_min: Whole | None = Field(None, description="Least number of sampled tokens.")
    tokens_max: Whole | None = Field(None, description="Highest number of sampled tokens.")
    format: Literal["valid", "broken"] | None = Field(None, description="Whether all answers had the required format.")
    claims: Literal["false", "true", "none"] | None = Field(
        None, description="At least one false claim in its thoughts, only true ones, or none."
    )
    false_claim_kinds: Annotated[str, Field(max_length=400, pattern=r"^[a-z_]+([ ,][a-z_]+)*$")] | None = Field(
        None, description="Kinds of claims, with commas: at least one false claim is of one of them (docs/claims.md)."
    )
    truth_min: Percent | None = Field(None, description="Share of its claims that are true, in percent.")
    truth_max: Percent | None = None
    kept: bool | None = Field(None, description="Whether the update used its group.")
    training_use: Annotated[str, Field(max_length=24, pattern=r"^[a-z_]+$")] | None = Field(
        None, description="Whether the update learnt from it and else why not: a `training_use`."
    )
    alarm: bool | None = Field(None, description="In iterations inside Echo Trap alarms.")
    text: Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00]*[A-Za-z0-9][^\x00]*$")] | None = Field(
        None, description='Words, "a phrase", or, -without: in thought or answer.'
    )
    pattern: Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00]+$")] | None = Field(
        None, description="A regular expression (PostgreSQL's) that the response of a turn matches somewhere."
    )
    starred: bool | None = Field(None, description="By any member of the team.")
    tag: Annotated[str, Field(max_length=40, pattern=r"^[^\x00]*$")] | None = Field(
        None, description="A tag of the team."
    )

    def filters(self, *, inside: bool) -> Filters:
        """Return the explorer's filters. `inside` is True for callers in the run's team. Raises Problem 422."""
        values = self.model_dump(exclude_none=True, include=set(TrajectoryFilter.model_fields))
        filters, errors = Filters.parse({name: str(value) for name, value in values.items()})
        if errors:
            raise invalid({name: text[:1].lower() + text[1:].rstrip(".") for name, text in errors.items()})
        return filters if inside else filters.without_annotations()
