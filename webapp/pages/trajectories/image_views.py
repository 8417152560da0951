"""Images of a trajectory: drawn pictures of a position for previews, and observations of its policy."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.utils.cache import get_conditional_response
from django.views.decorators.http import require_safe

from webapp.pages.trajectory_page import gone, private
from webapp.teams.decorators import account_optional
from webapp.trajectories.access import get_trajectory
from webapp.trajectories.exports.image_response import image_response
from webapp.trajectories.models import Trajectory
from webapp.trajectories.positions import requested_position
from webapp.trajectories.render.drawing_queue import BUSY, RETRY_AFTER, DrawingBusy
from webapp.trajectories.render.preview import drawing_key, nearest_position, preview
from webapp.trajectories.sharing.share_links import find_link, start_position

MAX_AGE = 300
"""Cache lifetime in seconds: the longest time that a revoked link's pictures remain visible."""


@require_safe
def shared_picture(request: HttpRequest, token: str) -> HttpResponse:
    """Send the preview picture of a link in chats and social networks."""
    link = find_link(token)
    if link is None:
        return gone(request)
    response = _picture(request, link.trajectory, start_position(link, request.GET))
    if response.status_code != 503:
        response["Cache-Control"] = f"public, max-age={MAX_AGE}"
    return private(response, link)


@account_optional
@require_safe
def trajectory_picture(request: HttpRequest, slug: str) -> HttpResponseBase:
    """Send the picture to readers of the run; `?turn=2&action=3` selects the position."""
    response = _picture(request, get_trajectory(request.user, slug), requested_position(request.GET))
    if response.status_code != 503:
        response["Cache-Control"] = f"private, max-age={MAX_AGE}"
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


def _picture(request: HttpRequest, trajectory: Trajectory, requested: tuple[int, int] | None) -> HttpResponse:
    position = nearest_position(trajectory, *requested) if requested else None
    tag = f'"{drawing_key(trajectory, position)}"'
    unchanged = get_conditional_response(request, etag=tag)
    if unchanged is not None:
        return unchanged
    try:
        picture = preview(trajectory, position)
    except DrawingBusy:
        response = HttpResponse(BUSY, status=503, content_type="text/plain; charset=utf-8")
        response["Retry-After"] = str(RETRY_AFTER)
        return response
    return HttpResponse(picture, content_type="image/png", headers={"ETag": tag})
