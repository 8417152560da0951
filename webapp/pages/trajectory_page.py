"""Parts that several pages of a trajectory share: the player's context, captions, and responses to share links."""

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
"""Counted up when pictures look different, so that old ones are asked for again."""
NO_FORMS = {"csrf_token": ""}
"""A page without forms needs no secret against forged ones, nor the cookie that goes with it."""


def player_context(found: Trajectory, data: dict[str, Any]) -> dict[str, Any]:
    """What templates/trajectories/_player.html needs, and what stands around it. `data` is what the player reads."""
    lost = found.lost_at or {}
    for turn in data["turns"]:
        turn["lost"] = lost.get("action", -1) if lost.get("turn") == turn["turn"] else -1
    return {
        "trajectory": found,
        "group": found.group,
        "run": found.run,
        "data": data,
        "turns": data["turns"],
        "board_text": board_text(data["board"]),
        "over": found.status in Trajectory.ENDED,
        "place": formatting.place(found.group.number, found.member),
    }


def caption(trajectory: Trajectory, turns: int) -> Caption:
    """What stands above the thought."""
    ended = trajectory.status in Trajectory.ENDED
    return Caption(
        title=trajectory.group.environment,
        outcome=outcome_of(trajectory),
        success=trajectory.status == Trajectory.Status.SUCCESS if ended else None,
        facts=when_of(trajectory),
        turns=turns,
    )


def private(response: HttpResponse, link: ShareLink) -> HttpResponse:
    """The link is a secret: no other site is told of it, and search engines only where its author wishes."""
    response["Referrer-Policy"] = "no-referrer"
    if not link.indexable:
        response["X-Robots-Tag"] = "noindex, nofollow"
    return response


def gone(request: HttpRequest) -> HttpResponse:
    """The same for links that never were, have expired or were revoked: which of them is not told."""
    response = render(request, "trajectories/gone.html", NO_FORMS, status=404)
    response["X-Robots-Tag"] = "noindex, nofollow"
    return response
