"""Endpoints of share links: create, list, revoke."""

from __future__ import annotations

from typing import Annotated

from django.http import HttpRequest
from django.utils import timezone
from ninja import Path, Router, Status

from webapp.api.auth import caller
from webapp.api.errors import Problem, invalid, refused
from webapp.api.schemas.shared_schemas import Slug, TrajectorySlug
from webapp.api.schemas.trajectory_schemas import NewShare, ShareOut
from webapp.api.serializers import share_out
from webapp.teams.access import require_writer, role_in
from webapp.trajectories.actions import do_revoke_share, do_share_trajectory
from webapp.trajectories.models import ShareLink

router = Router(tags=["shares"])
ShareToken = Annotated[Slug, Path(description="The last part of the link's address.")]


@router.get(
    "/trajectories/{slug}/shares",
    response={200: list[ShareOut]} | refused(),
    operation_id="list_shares",
    summary="List a trajectory's share links",
)
def list_shares(request: HttpRequest, slug: TrajectorySlug) -> list[ShareOut]:
    """All links including revoked and expired ones, newest first. Only for members of the run's team."""
    requester = caller(request)
    trajectory = requester.trajectory(slug)
    if role_in(requester.user, trajectory.run.team_id) is None:
        raise Problem(404, "Only members of the run's team may list its share links, and you are not one.")
    links = ShareLink.objects.filter(trajectory=trajectory).select_related("trajectory", "author").order_by("-pk")
    return [share_out(request, link) for link in links[:200]]


@router.post(
    "/trajectories/{slug}/shares",
    response={201: ShareOut} | refused(),
    operation_id="create_share",
    summary="Share a trajectory",
)
def create_share(request: HttpRequest, slug: TrajectorySlug, payload: NewShare) -> Status[ShareOut]:
    """Create a link for anyone, without an account. If you have an open link with the same options, it is returned."""
    requester = caller(request)
    trajectory = requester.trajectory(slug)
    require_writer(requester.user, trajectory.run.team_id)
    if payload.expires_at is not None:
        if timezone.is_naive(payload.expires_at):
            raise invalid({"expires_at": "needs a time zone, as in 2030-01-31T12:00:00Z"})
        if payload.expires_at <= timezone.now():
            raise invalid({"expires_at": "must lie in the future"})
    if payload.action is not None and payload.turn is None:
        raise invalid({"action": "requires a turn"})
    if payload.turn is not None and payload.turn >= max(1, trajectory.turn_count):
        raise invalid({"turn": f"is out of range: the trajectory has {trajectory.turn_count} turns, counted from 0"})
    link = do_share_trajectory(
        trajectory,
        requester.user,
        payload.expires_at,
        turn=payload.turn,
        action=payload.action,
        indexable=payload.indexable,
    )
    return Status(201, share_out(request, link))


@router.delete(
    "/shares/{token}",
    response={200: ShareOut} | refused(),
    operation_id="revoke_share",
    summary="Revoke a share link",
)
def revoke_share(request: HttpRequest, token: ShareToken) -> ShareOut:
    """Disable the link. Idempotent."""
    requester = caller(request)
    links = ShareLink.objects.select_related("trajectory__run", "author").filter(
        token=token, trajectory__run__in=requester.runs()
    )
    link = links.first()
    if link is None:
        raise Problem(404, "There is no such link, or it belongs to a team you are not in.")
    require_writer(requester.user, link.trajectory.run.team_id)
    do_revoke_share(link, requester.user)
    return share_out(request, link)
