"""Downloads of a trajectory (by its run's readers or by share link) and of a whole run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.utils.cache import get_conditional_response
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_safe

from trainer.journal.protocol import JOURNAL_FILE
from webapp.core.quotas import quota
from webapp.core.streaming import release_connection, streamed
from webapp.explorer.trajectory_filters import Filters, filter_trajectories
from webapp.pages.trajectory_page import gone, private
from webapp.runs import run_files
from webapp.runs.access import get_run, get_run_of_team
from webapp.runs.models import Run
from webapp.teams.access import role_in_team
from webapp.teams.decorators import account_optional
from webapp.trajectories import export_run
from webapp.trajectories.access import get_trajectory
from webapp.trajectories.export_document import document, shared_document, transcript
from webapp.trajectories.mistakes.judge import judged
from webapp.trajectories.models import Trajectory, TrajectoryQuerySet
from webapp.trajectories.render.animation import CONTENT_TYPES, AnimationTooLong, animate, frame_positions
from webapp.trajectories.render.drawing_queue import BUSY, DRAWINGS, RETRY_AFTER, DrawingBusy
from webapp.trajectories.render.preview import caption, drawing_key
from webapp.trajectories.serialize import turn_events
from webapp.trajectories.sharing.public import shared_data
from webapp.trajectories.sharing.share_links import find_link
from webapp.trajectories.token_view import tokens_of

MAX_AGE = 300
PARQUET, LINES = "application/vnd.apache.parquet", "application/x-ndjson; charset=utf-8"

MEGABYTE = 1_000_000
ExportFunction = Callable[[export_run.Export], Iterator[bytes]]
RUN_EXPORTS: dict[str, tuple[ExportFunction, str, str]] = {
    "parquet": (export_run.parquet, PARQUET, "trajectories.parquet"),
    "jsonl": (export_run.json_lines, LINES, "trajectories.jsonl"),
    "csv": (export_run.trajectories_csv, "text/csv; charset=utf-8", "trajectories.csv"),
    "metrics.parquet": (export_run.metrics_parquet, PARQUET, "metrics.parquet"),
    "metrics.csv": (export_run.metrics_csv, "text/csv; charset=utf-8", "metrics.csv"),
}


@account_optional
@require_safe
def trajectory_export(request: HttpRequest, slug: str, kind: str) -> HttpResponseBase:
    """JSON, text, WebP or GIF for those who may read the run."""
    trajectory = get_trajectory(request.user, slug)

    inside = role_in_team(request.user, trajectory.run.team_id) is not None

    def data() -> dict[str, Any]:
        return document(trajectory, turn_events(trajectory), trajectory.run.slug, inside=inside)

    return _export(request, trajectory, kind, slug, data)


@require_safe
def shared_export(request: HttpRequest, token: str, kind: str) -> HttpResponseBase:
    """The same for holders of a link, without the trajectory's place in the team."""
    link = find_link(token)
    if link is None:
        return gone(request)
    trajectory = link.trajectory

    def data() -> dict[str, Any]:
        return shared_document(trajectory, turn_events(trajectory))

    return private(_export(request, trajectory, kind, f"iteration-{trajectory.iteration}", data), link)


def _export(
    request: HttpRequest, trajectory: Trajectory, kind: str, name: str, data: Callable[[], dict[str, Any]]
) -> HttpResponse:
    file = f"{trajectory.group.environment}-{name}.{kind}".lower()
    if kind == "json":
        whole = data()
        whole |= judged(trajectory, whole) | {"tokens": tokens_of(trajectory)}
        text = json.dumps(whole, ensure_ascii=False, indent=1)
        return _file(text, "application/json", file, download=True)
    if kind == "txt":
        return _file(transcript(trajectory, turn_events(trajectory)), "text/plain; charset=utf-8", file, download=True)
    if kind in CONTENT_TYPES:
        return _animation(request, trajectory, kind, file)
    raise Http404("Unknown export format. Available: json, txt, webp, gif.")


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
    animation = DRAWINGS.files.get(key)
    if animation is None:
        try:
            with DRAWINGS.place():
                data = shared_data(trajectory)
                words = caption(trajectory, len(data["turns"]))
                frame_positions(data)
                release_connection()
                animation = DRAWINGS.draw(key, lambda: animate(data, words, kind))
        except AnimationTooLong as error:
            return _export_error(request, 413, str(error))
        except DrawingBusy:
            return _export_error(request, 503, BUSY)
    response = _file(animation, CONTENT_TYPES[kind], name, download=False)
    response["ETag"], response["Cache-Control"] = f'"{key}"', f"private, max-age={MAX_AGE}"
    return response


def _export_error(request: HttpRequest, status: int, reason: str) -> HttpResponse:
    response = render(request, "trajectories/refused.html", {"reason": reason}, status=status)
    if status == 503:
        response["Retry-After"] = str(RETRY_AFTER)
    return response


@account_optional
@require_safe
def run_export(request: HttpRequest, slug: str, kind: str) -> HttpResponseBase:
    """Trajectories, metrics or the journal of a run, streamed.

    A query has the explorer's filters of trajectories, which metrics and the journal ignore.
    """
    if kind == "journal":
        return _journal(request, get_run_of_team(request.user, slug))
    run = get_run(request.user, slug)
    if kind not in RUN_EXPORTS:
        raise Http404(f"Unknown export format. Available: {', '.join(RUN_EXPORTS)}, journal.")
    inside = role_in_team(request.user, run.team_id) is not None
    filters, errors = Filters.parse(request.GET) if kind in OF_TRAJECTORIES else (Filters(), {})
    if errors:
        reasons = " ".join(f"{name}: {reason.replace('; ignored.', '.')}" for name, reason in errors.items())
        return _export_error(request, 400, f"Nothing was exported. {reasons}")
    trajectories = filter_trajectories(run, filters if inside else filters.without_annotations())
    if kind in WITH_TURNS and (reason := _too_large(trajectories)):
        return _export_error(request, 413, reason)
    make, content_type, name = RUN_EXPORTS[kind]
    return streamed(
        request,
        _limited(make(export_run.Export(run, inside, trajectories)), f"{run.slug}-{name}"),
        content_type,
        f"{run.slug}-{name}",
        compressible=content_type != PARQUET,  # that is compressed already
    )


OF_TRAJECTORIES = {"parquet", "jsonl", "csv"}
"""Exports that the explorer's filters restrict."""
WITH_TURNS = {"parquet", "jsonl"}
"""Exports whose size is estimated before the first byte: others are small."""


def _too_large(trajectories: TrajectoryQuerySet) -> str:
    """Why they are not exported at once; empty if they may be."""
    limit = quota("EXPORT_MB")
    size = export_run.estimated_bytes(trajectories) / MEGABYTE if limit else 0
    if size <= limit:
        return ""
    return (
        f"This export would have about {size:,.0f} MB, and at most {limit:,} MB are exported at once "
        "(ECHOSCOPE_MAX_EXPORT_MB). Export it in parts: filter the list of trajectories, for example by iterations, "
        "and choose “Export these” there."
    )


def _limited(chunks: Iterator[bytes], name: str) -> Iterator[bytes]:
    """The chunks up to the limit. Beyond it the connection breaks, so that no client takes a part for the whole."""
    limit, sent = quota("EXPORT_MB") * MEGABYTE, 0
    for chunk in chunks:
        sent += len(chunk)
        if 0 < limit < sent:
            raise ExportTooLarge(f"{name} was broken off at {sent:,} bytes: ECHOSCOPE_MAX_EXPORT_MB")
        yield chunk


class ExportTooLarge(Exception):
    """An export grew beyond the limit although its estimate was below it."""


def _journal(request: HttpRequest, run: Run) -> HttpResponseBase:
    path = run_files.journal(run)
    if path is None:
        reason = "The journal of this run is not on this machine: it is where the run was trained."
        return _export_error(request, 404, reason)
    return streamed(request, export_run.journal(path), LINES, f"{run.slug}-{JOURNAL_FILE}", compressible=True)
