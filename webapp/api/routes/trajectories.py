"""Endpoints of trajectories: search with the explorer's filters, and one trajectory with its turns. Read-only."""

from __future__ import annotations

from typing import Annotated, Literal

from django.http import HttpRequest
from ninja import Query, Router, Schema
from pydantic import Field

from webapp.api import schemas
from webapp.api.auth import caller
from webapp.api.errors import invalid, refused
from webapp.api.serializers import is_inside, trajectory_out
from webapp.explorer import trajectory_filters
from webapp.trajectories import pagination
from webapp.trajectories.serialize import player_data

router = Router(tags=["trajectories"])
Real = Annotated[float, Field(ge=-1e12, le=1e12)]
Name = Annotated[str, Field(max_length=100, pattern=r"^[^\x00]*$")]
Percent = Annotated[float, Field(ge=0, le=100)]
Sort = Literal[
    "iteration",
    "-iteration",
    "place",
    "-place",
    "environment",
    "-environment",
    "outcome",
    "-outcome",
    "mark",
    "-mark",
    "reward",
    "-reward",
    "turns",
    "-turns",
    "actions",
    "-actions",
    "tokens",
    "-tokens",
    "format",
    "-format",
    "kept",
    "-kept",
    "played",
    "-played",
]


class TrajectoryFilter(Schema):
    """Filters of the explorer, with the same names. Ranges include both ends."""

    iteration: schemas.Whole | None = Field(None, description="Only this iteration; 0 is before training.")
    iteration_min: schemas.Whole | None = Field(None, description="First iteration.")
    iteration_max: schemas.Whole | None = Field(None, description="Last iteration.")
    environment: Name | None = Field(None, description="Name of the environment.")
    split: Literal["train", "eval"] | None = Field(None, description="From training or from evaluations.")
    suite: Name | None = Field(None, description="Name of the evaluation suite.")
    group: schemas.Whole | None = Field(None, description="Index of the puzzle's group in its iteration, from 0.")
    group_number: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = Field(
        None, description="The same as the explorer shows it, from 1."
    )
    outcome: Literal["success", "failed", "lost", "truncated", "error", "interrupted", "playing", "waiting"] | None = (
        Field(None, description="How it ended; “lost”: in a dead end, from which success was out of reach.")
    )
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
    turns_min: schemas.Whole | None = Field(None, description="Least number of turns.")
    turns_max: schemas.Whole | None = Field(None, description="Highest number of turns.")
    actions_min: schemas.Whole | None = Field(None, description="Least number of executed actions.")
    actions_max: schemas.Whole | None = Field(None, description="Highest number of executed actions.")
    tokens_min: schemas.Whole | None = Field(None, description="Least number of sampled tokens.")
    tokens_max: schemas.Whole | None = Field(None, description="Highest number of sampled tokens.")
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
    alarm: bool | None = Field(None, description="In iterations inside Echo Trap alarms.")
    text: Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00]*[A-Za-z0-9][^\x00]*$")] | None = Field(
        None, description='Words, "a phrase", or, -without: in thought or answer.'
    )
    starred: bool | None = Field(None, description="By any member of the team.")
    tag: Annotated[str, Field(max_length=40, pattern=r"^[^\x00]*$")] | None = Field(
        None, description="A tag of the team."
    )
    sort: Sort = Field("-iteration", description="Prefix - for descending order.")
    limit: schemas.Limit = 50
    cursor: schemas.Cursor = None


@router.get(
    "/runs/{slug}/trajectories",
    response={200: schemas.TrajectoryPage} | refused(),
    operation_id="list_trajectories",
    summary="Search trajectories of a run",
)
def list_trajectories(
    request: HttpRequest, slug: schemas.RunSlug, query: Query[TrajectoryFilter]
) -> schemas.TrajectoryPage:
    """Excludes trajectories superseded by a later attempt of the run. Only the team can filter by stars and tags."""
    run = caller(request).run(slug)
    values = query.model_dump(exclude_none=True, exclude={"limit", "cursor"})
    filters, errors = trajectory_filters.Filters.parse({name: str(value) for name, value in values.items()})
    if errors:
        raise invalid({name: text[:1].lower() + text[1:].rstrip(".") for name, text in errors.items()})
    if not is_inside(request, run):
        filters = filters.without_annotations()
    trajectories = trajectory_filters.filter_trajectories(run, filters).select_related("group")
    try:
        page = pagination.page(trajectories, filters.sort, query.cursor, size=query.limit)
    except pagination.BadCursor:
        raise invalid({"cursor": "is not a cursor of this list: start again without it"}) from None
    return schemas.TrajectoryPage(
        items=[trajectory_out(request, run, trajectory) for trajectory in page.items], next_cursor=page.next
    )


@router.get(
    "/trajectories/{slug}",
    response={200: schemas.TrajectoryDetail} | refused(),
    operation_id="get_trajectory",
    summary="Read a trajectory",
)
def get_trajectory(request: HttpRequest, slug: schemas.TrajectorySlug) -> schemas.TrajectoryDetail:
    """A trajectory with its prompt, first board and all turns."""
    trajectory = caller(request).trajectory(slug)
    data = player_data(trajectory)
    return schemas.TrajectoryDetail(
        trajectory=trajectory_out(request, trajectory.run, trajectory),
        seed=trajectory.group.seed,
        prompt=trajectory.group.prompt,
        board=data["board"],
        hint=data["hint"],
        turns=data["turns"],
        marks=data["marks"],
        verdict=data["verdict"],
    )
