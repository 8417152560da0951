"""Shared parts of the pages of a trajectory: player context, responses to share links."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from trainer.metrics.training_use import TRAINING_USES
from webapp.trajectories.board_text import board_text
from webapp.trajectories.branch_origin import place_text
from webapp.trajectories.models import ShareLink, Trajectory
from webapp.trajectories.positions import position_query
from webapp.trajectories.token_view import count_folded
from webapp.trajectories.turn_text import extra_text

NO_FORMS = {"csrf_token": ""}
"""Context of pages without forms: no CSRF token and no cookie for it."""


def player_context(trajectory: Trajectory, data: dict[str, Any]) -> dict[str, Any]:
    """Return the context of templates/trajectories/_player.html and the page around it. `data`: see trajectory_data().

    `images_address`: address of the images of observations, without their hash; share links replace it.
    """
    data = count_folded(trajectory, data)
    lost, verdict = trajectory.lost_at or {}, data.get("verdict")
    glyphs = {(mark["turn"], mark["action"]): mark["glyph"] for mark in data.get("marks") or ()}
    for turn in data["turns"]:
        turn["lost"] = lost.get("action", -1) if lost.get("turn") == turn["turn"] else -1
        for number, record in enumerate(turn["actions"]):
            if (turn["turn"], number) in glyphs:
                record["glyph"] = glyphs[turn["turn"], number]
    return {
        "trajectory": trajectory,
        "group": trajectory.group,
        "run": trajectory.run,
        "data": data,
        "turns": data["turns"],
        "images_address": f"{reverse('trajectory', args=[trajectory.slug])}/images/",
        "verdict_address": position_query(verdict["turn"], verdict["action"]) if verdict else "",
        "board_text": board_text(data["board"]),
        "training_use": TRAINING_USES.get(trajectory.training_use),
        "over": trajectory.status in Trajectory.ENDED,
        "place": place_text(trajectory),
    }


def list_further_fields(trajectory: Trajectory) -> list[tuple[str, str]]:
    """Return titles and texts of further fields of the trajectory and its group, only for the team as in exports."""
    fields = {"More about this attempt": trajectory.extra, "More about its group": trajectory.group.extra}
    return [(title, text) for title, extra in fields.items() if (text := extra_text(extra))]


def private(response: HttpResponse, link: ShareLink) -> HttpResponse:
    """Add headers for a secret link: no referrer, and no indexing unless its author allows it."""
    response["Referrer-Policy"] = "no-referrer"
    if not link.indexable:
        response["X-Robots-Tag"] = "noindex, nofollow"
    return response


def gone(request: HttpRequest) -> HttpResponse:
    """Show the same 404 page for unknown, expired and revoked links."""
    response = render(request, "trajectories/gone.html", NO_FORMS, status=404)
    response["X-Robots-Tag"] = "noindex, nofollow"
    return response
