"""Images of a trajectory: drawn pictures of a position for previews, and observations of its policy."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.views.decorators.http import require_safe

from webapp.pages.drawing_response import MAX_AGE, drawing_response
from webapp.pages.trajectory_page import gone, private
from webapp.teams.decorators import account_optional
from webapp.trajectories.access import get_trajectory
from webapp.trajectories.exports.image_response import image_response
from webapp.trajectories.models import Trajectory
from webapp.trajectories.positions import requested_position
from webapp.trajectories.render.preview import board_picture, drawing_key, nearest_position, preview
from webapp.trajectories.sharing.share_links import find_link, start_position


@require_safe
def shared_picture(request: HttpRequest, token: str) -> HttpResponse:
    """Send the preview picture of a link in chats and social networks."""
    link = find_link(token)
    if link is None:
        return gone(request)
    return private(_picture(request, link.trajectory, start_position(link, request.GET), "public"), link)


@account_optional
@require_safe
def trajectory_picture(request: HttpRequest, slug: str) -> HttpResponseBase:
    """Send the picture to readers of the run; `?turn=2&action=3` selects the position."""
    return _picture(request, get_trajectory(request.user, slug), requested_position(request.GET), "private")


@account_optional
@require_safe
def trajectory_board(request: HttpRequest, slug: str) -> HttpResponseBase:
    """Send the board of the same position as SVG, to be saved: pages' policy would not allow its style sheet."""
    trajectory, requested = get_trajectory(request.user, slug), requested_position(request.GET)
    position = nearest_position(trajectory, *requested) if requested else None
    key = drawing_key(trajectory, position, "svg")
    response = drawing_response(request, key, "image/svg+xml", lambda: board_picture(trajectory, position))
    response["Content-Disposition"] = f'attachment; filename="{trajectory.slug}.svg"'
    return response


@require_safe
def shared_image(request: HttpRequest, token: str, sha256: str) -> HttpResponse:
    """Send an image of an observation to holders of the link."""
    link = find_link(token)
    if link is None:
        return gone(request)
    return private(_image(request, link.trajectory, sha256, f"public, max-age={MAX_AGE}"), link)


@account_optional
@require_safe
def trajectory_image(request: HttpRequest, slug: str, sha256: str) -> HttpResponseBase:
    """Send an image of an observation to readers of the run."""
    return _image(request, get_trajectory(request.user, slug), sha256, f"private, max-age={MAX_AGE}")


def _image(request: HttpRequest, trajectory: Trajectory, sha256: str, caching: str) -> HttpResponse:
    response = image_response(request, trajectory, sha256)
    if response is None:
        raise Http404("This attempt has no such image, or it was not sent with its run.")
    response["Cache-Control"] = caching
    return response


def _picture(
    request: HttpRequest, trajectory: Trajectory, requested: tuple[int, int] | None, caching: str
) -> HttpResponse:
    position = nearest_position(trajectory, *requested) if requested else None
    key = drawing_key(trajectory, position)
    return drawing_response(request, key, "image/png", lambda: preview(trajectory, position), caching)
