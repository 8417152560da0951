"""The picture of a position: for previews of shared links, and for the team. Drawing is pictures_card.py's business."""

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
from webapp.trajectories.positions import asked, at, positions, telling
from webapp.trajectories.render.card import draw_preview
from webapp.trajectories.serialize import trajectory_data
from webapp.trajectories.sharing.share_links import find_link, start_of

FRESH = 300
"""Seconds a cache may show a picture without asking: a revoked link's lives on for no longer."""


@require_safe
def shared_picture(request: HttpRequest, token: str) -> HttpResponse:
    """What chats and social networks show of a link."""
    link = find_link(token)
    if link is None:
        return gone(request)
    response = _picture(request, link.trajectory, start_of(link, request.GET))
    response["Cache-Control"] = f"public, max-age={FRESH}"
    return private(response, link)


@account_optional
@require_safe
def trajectory_picture(request: HttpRequest, slug: str) -> HttpResponseBase:
    """The same for those who may read the run; `?turn=2&action=3` is drawn there."""
    response = _picture(request, get_trajectory(request.user, slug), asked(request.GET))
    response["Cache-Control"] = f"private, max-age={FRESH}"
    return response


def _picture(request: HttpRequest, trajectory: Trajectory, position: tuple[int, int] | None) -> HttpResponse:
    facts = (STYLE, trajectory.pk, trajectory.last_seq, trajectory.status, position)
    key = hashlib.sha256(repr(facts).encode()).hexdigest()[:24]
    unchanged = get_conditional_response(request, etag=f'"{key}"')
    if unchanged is not None:
        return unchanged
    data = cache.get_or_set(f"picture-{key}", lambda: _png(trajectory, position), FRESH)
    return HttpResponse(data, content_type="image/png", headers={"ETag": f'"{key}"'})


def _png(trajectory: Trajectory, position: tuple[int, int] | None) -> bytes:
    data = trajectory_data(trajectory)
    shown = at(positions(data), *(position or telling(data)))
    file = BytesIO()
    draw_preview(shown, caption(trajectory, len(data["turns"]))).save(file, "PNG", optimize=True)
    return file.getvalue()
