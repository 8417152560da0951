"""Shared parts of the pages of a trajectory: player context, captions, responses to share links."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from webapp.core import formatting
from webapp.trajectories.board_text import board_text
from webapp.trajectories.models import ShareLink, Trajectory
from webapp.trajectories.render.card import Caption
from webapp.trajectories.sharing.public import outcome_of, when_of

STYLE = 1
"""Version of the rendering, part of the ETags: increase it when pictures look different."""
NO_FORMS = {"csrf_token": ""}
"""Context of pages without forms: no CSRF token and no cookie for it."""


def player_context(trajectory: Trajectory, data: dict[str, Any]) -> dict[str, Any]:
    """Context of templates/trajectories/_player.html and the page around it. `data`: see trajectory_data()."""
    lost = trajectory.lost_at or {}
    for turn in data["turns"]:
        turn["lost"] = lost.get("action", -1) if lost.get("turn") == turn["turn"] else -1
    return {
        "trajectory": trajectory,
        "group": trajectory.group,
        "run": trajectory.run,
        "data": data,
        "turns": data["turns"],
        "board_text": board_text(data["board"]),
        "over": trajectory.status in Trajectory.ENDED,
        "place": formatting.place(trajectory.group.number, trajectory.member),
    }


def caption(trajectory: Trajectory, turns: int) -> Caption:
    """Caption above the thought in pictures and animations."""
    ended = trajectory.status in Trajectory.ENDED
    return Caption(
        title=trajectory.group.environment,
        outcome=outcome_of(trajectory),
        success=trajectory.status == Trajectory.Status.SUCCESS if ended else None,
        facts=when_of(trajectory),
        turns=turns,
    )


def private(response: HttpResponse, link: ShareLink) -> HttpResponse:
    """Headers for a secret link: no referrer, and no indexing unless its author allows it."""
    response["Referrer-Policy"] = "no-referrer"
    if not link.indexable:
        response["X-Robots-Tag"] = "noindex, nofollow"
    return response


def gone(request: HttpRequest) -> HttpResponse:
    """The same 404 page for unknown, expired and revoked links."""
    response = render(request, "trajectories/gone.html", NO_FORMS, status=404)
    response["X-Robots-Tag"] = "noindex, nofollow"
    return response
