"""Downloads of one trajectory: JSON document, transcript, animation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

from django.http import HttpRequest, HttpResponse
from django.utils.cache import get_conditional_response
from django.utils.http import content_disposition_header

from webapp.core.output_budget import json_text
from webapp.core.streaming import release_connection
from webapp.trajectories.exports.download_refused import DownloadRefused
from webapp.trajectories.exports.export_document import document, transcript
from webapp.trajectories.mistakes.judge import judged
from webapp.trajectories.models import Trajectory
from webapp.trajectories.observation_images import decoded_images
from webapp.trajectories.render.animation import CONTENT_TYPES, AnimationTooLong, animate, frame_positions
from webapp.trajectories.render.drawing_queue import BUSY, DRAWINGS, DrawingBusy
from webapp.trajectories.render.preview import caption, drawing_key
from webapp.trajectories.serialize import turn_events
from webapp.trajectories.sharing.public import shared_data
from webapp.trajectories.token_view import get_token_data

TrajectoryExportKind = Literal["json", "txt", "webp", "gif"]
KINDS: tuple[str, ...] = get_args(TrajectoryExportKind)
MAX_AGE = 300


def readers_download(request: HttpRequest, trajectory: Trajectory, kind: str, *, inside: bool) -> HttpResponse:
    """Return the file for readers of the run. `inside`: True for its team. Raises DownloadRefused."""

    def data() -> dict[str, Any]:
        return document(trajectory, turn_events(trajectory), trajectory.run.slug, inside=inside)

    return download(request, trajectory, kind, trajectory.slug, data)


def download(
    request: HttpRequest, trajectory: Trajectory, kind: str, name: str, data: Callable[[], dict[str, Any]]
) -> HttpResponse:
    """Return a file in one of the formats of KINDS.

    Args:
        name: file name after the name of the environment.
        data: makes the document, for JSON.
    Raises:
        DownloadRefused: unknown format, or an animation that is too long or cannot be drawn now.
    """
    file = f"{trajectory.group.environment}-{name}.{kind}".lower()
    if kind == "json":
        whole = data()
        whole |= judged(trajectory, whole) | {"tokens": get_token_data(trajectory)}
        text = json_text(whole, indent=1)
        return _file(text, "application/json", file, download=True)
    if kind == "txt":
        return _file(transcript(trajectory, turn_events(trajectory)), "text/plain; charset=utf-8", file, download=True)
    if kind in CONTENT_TYPES:
        return _animation(request, trajectory, kind, file)
    raise DownloadRefused(404, f"Unknown export format. Available: {', '.join(KINDS)}.")


def _file(data: str | bytes, content_type: str, name: str, *, download: bool) -> HttpResponse:
    response = HttpResponse(data, content_type=content_type)
    response["Content-Disposition"] = content_disposition_header(download, name) or "inline"
    response["Cache-Control"] = "private, no-cache"
    return response


def _animation(request: HttpRequest, trajectory: Trajectory, kind: str, name: str) -> HttpResponse:
    key = drawing_key(trajectory, kind)
    unchanged = get_conditional_response(request, etag=f'"{key}"')
    if unchanged is not None:
        return unchanged

    def load() -> Callable[[], bytes]:
        data = shared_data(trajectory)
        words = caption(trajectory, data)
        line = frame_positions(data)
        release_connection()
        images = decoded_images(trajectory.run, line)
        return lambda: animate(data, words, kind, images)

    try:
        animation = DRAWINGS.get(key, load)
    except AnimationTooLong as error:
        raise DownloadRefused(413, str(error)) from None
    except DrawingBusy:
        raise DownloadRefused(503, BUSY) from None
    response = _file(animation, CONTENT_TYPES[kind], name, download=False)
    response["ETag"], response["Cache-Control"] = f'"{key}"', f"private, max-age={MAX_AGE}"
    return response
