"""Pictures of a position, for previews of shared links and for the team."""

from __future__ import annotations

import hashlib
from io import BytesIO

from django.core.cache import cache
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.cache import get_conditional_response
from django.views.decorators.http import require_safe

from webapp.pages.trajectory_page import STYLE, caption, gone, private
from webapp.teams.decorators import account_optional
from webapp.trajectories.access import get_trajectory
from webapp.trajectories.models import Trajectory
from webapp.trajectories.positions import key_position, position_at, positions, requested_position
from webapp.trajectories.render.card import draw_preview
from webapp.trajectories.serialize import trajectory_data
from webapp.trajectories.sharing.share_links import find_link, start_of

MAX_AGE = 300
"""Cache lifetime in seconds: the longest time that a revoked link's picture remains visible."""


@require_safe
def shared_picture(request: HttpRequest, token: str) -> HttpResponse:
    """Preview picture of a link in chats and social networks."""
    link = find_link(token)
    if link is None:
        return gone(request)
    response = _picture(request, link.trajectory, start_of(link, request.GET))
    response["Cache-Control"] = f"public, max-age={MAX_AGE}"
    return private(response, link)


@account_optional
@require_safe
def trajectory_picture(request: HttpRequest, slug: str) -> HttpResponseBase:
    """The picture for readers of the run; `?turn=2&action=3` selects the position."""
    response = _picture(request, get_trajectory(request.user, slug), requested_position(request.GET))
    response["Cache-Control"] = f"private, max-age={MAX_AGE}"
    return response


def _picture(request: HttpRequest, trajectory: Trajectory, position: tuple[int, int] | None) -> HttpResponse:
    facts = (STYLE, trajectory.pk, trajectory.last_seq, trajectory.status, position)
    key = hashlib.sha256(repr(facts).encode()).hexdigest()[:24]
    unchanged = get_conditional_response(request, etag=f'"{key}"')
    if unchanged is not None:
        return unchanged
    data = cache.get_or_set(f"picture-{key}", lambda: _png(trajectory, position), MAX_AGE)
    return HttpResponse(data, content_type="image/png", headers={"ETag": f'"{key}"'})


def _png(trajectory: Trajectory, position: tuple[int, int] | None) -> bytes:
    data = trajectory_data(trajectory)
    selected = position_at(positions(data), *(position or key_position(data)))
    file = BytesIO()
    draw_preview(selected, caption(trajectory, len(data["turns"]))).save(file, "PNG", optimize=True)
    return file.getvalue()
