"""The film of an initial state on a page: the context of its panel, and its picture in previews of the page's link."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.urls import reverse

from webapp.explorer.filmstrip import MAX_FRAMES, Chosen, film_data, make_film
from webapp.trajectories.models import Trajectory
from webapp.trajectories.render.film import picture_size


def film_panel(chosen: Chosen, current: Trajectory) -> dict[str, Any]:
    """Context of templates/trajectories/_filmstrip.html, which also reads `trajectory` and `run`."""
    film = make_film(chosen, current.group.environment)
    return {
        "chosen": chosen,
        "film": list(zip(chosen.frames, film.frames, strict=True)),
        "film_data": film_data(film),
        "film_size": picture_size(min(chosen.total, MAX_FRAMES)),
        "hidden": chosen.total - len(chosen.frames),
        "walks": film.last > 0,
    }


def film_picture(request: HttpRequest, current: Trajectory, chosen: Chosen) -> str:
    """Address of the preview picture, another one for each state of the film: previews are cached."""
    address = request.build_absolute_uri(reverse("film-preview", args=[current.slug]))
    version = max(frame.played.trajectory.last_seq for frame in chosen.frames)
    return f"{address}{chosen.query}{'&' if chosen.query else '?'}v={version}"
