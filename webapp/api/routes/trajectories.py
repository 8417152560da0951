"""Endpoints of trajectories: search with the explorer's filters, and one trajectory with its turns. Read-only."""

from __future__ import annotations

from typing import Annotated, Literal

from django.http import HttpRequest
from ninja import Query, Router, Schema
from pydantic import Field

from webapp.api import schemas
from webapp.api.auth import caller
from webapp.api.errors import invalid, refused
from webapp.api.serializers import trajectory_out
from webapp.explorer import trajectory_filters
from webapp.trajectories import pagination
from webapp.trajectories.serialize import trajectory_data

router = Router(tags=["trajectories"])
Real = Annotated[float, Field(ge=-1e12, le=1e12)]
Sort = Literal[
    "iteration",
    "-iteration",
    "place",
    "-place",
    "environment",
    "-environment",
    "outcome",
    "-outcome",
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

    iteration: schemas.Whole | None = None
    iteration_min: schemas.Whole | None = None
    iteration_max: schemas.Whole | None = None
    environment: Annotated[str, Field(max_length=100, pattern=r"^[^\x00]*$")] | None = None
    split: Literal["train", "eval"] | None = None
    suite: Annotated[str, Field(max_length=100, pattern=r"^[^\x00]*$")] | None = None
    group: schemas.Whole | None = None
    outcome: Literal["success", "failed", "lost", "truncated", "error", "playing", "waiting"] | None = None
    success: bool | None = None
    reward_min: Real | None = None
    reward_max: Real | None = None
    turns_min: schemas.Whole | None = None
    turns_max: schemas.Whole | None = None
    actions_min: schemas.Whole | None = None
    actions_max: schemas.Whole | None = None
    tokens_min: schemas.Whole | None = None
    tokens_max: schemas.Whole | None = None
    format: Literal["valid", "broken"] | None = None
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
    """Excludes trajectories superseded by a later attempt of the run."""
    run = caller(request).run(slug)
    values = query.model_dump(exclude_none=True, exclude={"limit", "cursor"})
    filters, errors = trajectory_filters.Filters.parse({name: str(value) for name, value in values.items()})
    if errors:
        raise invalid({name: text[:1].lower() + text[1:].rstrip(".") for name, text in errors.items()})
    trajectories = trajectory_filters.filter_trajectories(run, filters).select_related("group")
    try:
        page = pagination.page(trajectories, filters.sort, query.cursor, size=query.limit)
    except pagination.BadCursor:
        raise invalid({"cursor": "is not a cursor of this list: start again without it"}) from None
    return schemas.TrajectoryPage(
        items=[trajectory_out(request, run.slug, trajectory) for trajectory in page.items], next_cursor=page.next
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
    data = trajectory_data(trajectory)
    return schemas.TrajectoryDetail(
        trajectory=trajectory_out(request, trajectory.run.slug, trajectory),
        seed=trajectory.group.seed,
        prompt=trajectory.group.prompt,
        board=data["board"],
        hint=data["hint"],
        turns=data["turns"],
    )
