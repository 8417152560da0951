"""Endpoints of trajectories: search with the explorer's filters, one trajectory with its turns, and its tokens."""

from __future__ import annotations

from typing import Literal

from django.http import HttpRequest
from ninja import Query, Router, Status
from pydantic import Field

from webapp.api.auth import caller
from webapp.api.branch_serializers import question_of
from webapp.api.errors import invalid, refused
from webapp.api.routes.trajectory_filter import TrajectoryFilter
from webapp.api.schemas.shared_schemas import Cursor, Limit, RunSlug, TrajectorySlug
from webapp.api.schemas.token_schemas import TokenState, TrajectoryTokensOut
from webapp.api.schemas.trajectory_schemas import TrajectoryDetail, TrajectoryPage
from webapp.api.serializers import is_inside, trajectory_out
from webapp.api.token_serializers import token_state, tokens_out
from webapp.explorer.trajectory_filters import filter_trajectories
from webapp.teams.access import require_writer
from webapp.trajectories import pagination
from webapp.trajectories.serialize import player_data
from webapp.trajectories.token_computation import do_request_tokens

router = Router(tags=["trajectories"])
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
    "mismatch",
    "-mismatch",
    "played",
    "-played",
]


class TrajectoryQuery(TrajectoryFilter):
    """Filters of trajectories, their order, and the page."""

    sort: Sort = Field("-iteration", description="Prefix - for descending order.")
    limit: Limit = 50
    cursor: Cursor = None


@router.get(
    "/runs/{slug}/trajectories",
    response={200: TrajectoryPage} | refused(),
    operation_id="list_trajectories",
    summary="Search trajectories of a run",
)
def list_trajectories(request: HttpRequest, slug: RunSlug, query: Query[TrajectoryQuery]) -> TrajectoryPage:
    """Excludes trajectories superseded by a later attempt of the run. Only the team can filter by stars and tags."""
    run = caller(request).run(slug)
    filters = query.filters(inside=is_inside(request, run))
    trajectories = filter_trajectories(run, filters).select_related("group")
    try:
        page = pagination.page(trajectories, query.sort, query.cursor, size=query.limit)
    except pagination.BadCursor:
        raise invalid({"cursor": "is not a cursor of this list: start again without it"}) from None
    return TrajectoryPage(
        items=[trajectory_out(request, run, trajectory) for trajectory in page.items], next_cursor=page.next
    )


@router.get(
    "/trajectories/{slug}",
    response={200: TrajectoryDetail} | refused(),
    operation_id="get_trajectory",
    summary="Read a trajectory",
)
def get_trajectory(request: HttpRequest, slug: TrajectorySlug) -> TrajectoryDetail:
    """A trajectory with its prompt, first board and all turns."""
    trajectory = caller(request).trajectory(slug)
    data = player_data(trajectory)
    return TrajectoryDetail(
        trajectory=trajectory_out(request, trajectory.run, trajectory),
        seed=trajectory.group.seed,
        prompt=trajectory.group.prompt,
        board=data["board"],
        hint=data["hint"],
        turns=data["turns"],
        marks=data["marks"],
        verdict=data["verdict"],
        recorded=data.get("recorded", False),
        question=question_of(trajectory),
    )


@router.get(
    "/trajectories/{slug}/tokens",
    response={200: TrajectoryTokensOut} | refused(),
    operation_id="get_trajectory_tokens",
    summary="Read a trajectory's tokens",
)
def get_trajectory_tokens(request: HttpRequest, slug: TrajectorySlug) -> TrajectoryTokensOut:
    """Everything that the policy read and wrote, token by token; empty lists if there are no tokens."""
    return tokens_out(caller(request).trajectory(slug))


@router.post(
    "/trajectories/{slug}/tokens",
    response={202: TokenState} | refused(409),
    operation_id="compute_trajectory_tokens",
    summary="Compute tokens that were not recorded",
)
def compute_trajectory_tokens(request: HttpRequest, slug: TrajectorySlug) -> Status[TokenState]:
    """Request that a worker computes the tokens from the nearest kept checkpoint; read them to see when they are there.

    Repeated, it starts nothing new. 409 if they cannot be computed: the message says why.
    """
    requester = caller(request)
    trajectory = requester.trajectory(slug)
    require_writer(requester.user, trajectory.run.team_id)
    do_request_tokens(trajectory, requester.user)
    return Status(202, token_state(trajectory))
