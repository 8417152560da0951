"""Downloads of a trajectory (by its run's readers or by share link) and of a whole run."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.utils.cache import get_conditional_response
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_safe

from trainer.journal.protocol import JOURNAL_FILE
from webapp.core.streaming import streamed
from webapp.pages.trajectory_page import STYLE, caption, gone, private
from webapp.runs import run_files
from webapp.runs.access import get_run, get_run_of_team
from webapp.runs.models import Run
from webapp.teams.decorators import account_optional
from webapp.trajectories import export_run
from webapp.trajectories.access import get_trajectory
from webapp.trajectories.export_document import document, shared_document, transcript
from webapp.trajectories.models import Trajectory
from webapp.trajectories.render.animation import CONTENT_TYPES, AnimationTooLong, animate
from webapp.trajectories.sharing.public import shared_data
from webapp.trajectories.sharing.share_links import find_link
from webapp.trajectories.token_view import tokens_of

ANIMATION_SLOT = threading.BoundedSemaphore(1)
"""One animation per process at a time: each keeps a core busy for seconds."""
ANIMATION_TIMEOUT = 20.0
MAX_AGE = 300
PARQUET, LINES = "application/vnd.apache.parquet", "application/x-ndjson; charset=utf-8"

ExportFunction = Callable[[Run], Iterator[bytes]]
RUN_EXPORTS: dict[str, tuple[ExportFunction, str, str]] = {
    "parquet": (export_run.parquet, PARQUET, "trajectories.parquet"),
    "jsonl": (export_run.json_lines, LINES, "trajectories.jsonl"),
    "metrics.parquet": (export_run.metrics_parquet, PARQUET, "metrics.parquet"),
    "metrics.csv": (export_run.metrics_csv, "text/csv; charset=utf-8", "metrics.csv"),
}


@account_optional
@require_safe
def trajectory_export(request: HttpRequest, slug: str, kind: str) -> HttpResponseBase:
    """JSON, text, WebP or GIF for those who may read the run."""
    trajectory = get_trajectory(request.user, slug)

    def data() -> dict[str, Any]:
        return document(trajectory, _events(trajectory), trajectory.run.slug)

    return _export(request, trajectory, kind, slug, data)


@require_safe
def shared_export(request: HttpRequest, token: str, kind: str) -> HttpResponseBase:
    """The same for holders of a link, without the trajectory's place in the team."""
    link = find_link(token)
    if link is None:
        return gone(request)
    trajectory = link.trajectory

    def data() -> dict[str, Any]:
        return shared_document(trajectory, _events(trajectory))

    return private(_export(request, trajectory, kind, f"iteration-{trajectory.iteration}", data), link)


def _export(
    request: HttpRequest, trajectory: Trajectory, kind: str, name: str, data: Callable[[], dict[str, Any]]
) -> HttpResponse:
    file = f"{trajectory.group.environment}-{name}.{kind}".lower()
    if kind == "json":
        text = json.dumps(data() | {"tokens": tokens_of(trajectory)}, ensure_ascii=False, indent=1)
        return _file(text, "application/json", file, download=True)
    if kind == "txt":
        return _file(transcript(trajectory, _events(trajectory)), "text/plain; charset=utf-8", file, download=True)
    if kind in CONTENT_TYPES:
        return _animation(request, trajectory, kind, file)
    raise Http404("Unknown export format. Available: json, txt, webp, gif.")


def _events(trajectory: Trajectory) -> list[Any]:
    return list(trajectory.turns.order_by("number").values_list("event", flat=True))


def _file(data: str | bytes, content_type: str, name: str, *, download: bool) -> HttpResponse:
    response = HttpResponse(data, content_type=content_type)
    response["Content-Disposition"] = content_disposition_header(download, name) or "inline"
    response["Cache-Control"] = "private, no-cache"
    return response


def _animation(request: HttpRequest, trajectory: Trajectory, kind: str, name: str) -> HttpResponse:
    facts = (STYLE, trajectory.pk, trajectory.last_seq, trajectory.status, kind)
    etag = f'"{hashlib.sha256(repr(facts).encode()).hexdigest()[:24]}"'
    unchanged = get_conditional_response(request, etag=etag)
    if unchanged is not None:
        return unchanged
    data = shared_data(trajectory)
    if not ANIMATION_SLOT.acquire(timeout=ANIMATION_TIMEOUT):
        return _export_error(request, 503, "The server is rendering other animations. Try again in a minute.")
    try:
        animation = animate(data, caption(trajectory, len(data["turns"])), kind)
    except AnimationTooLong as error:
        return _export_error(request, 413, str(error))
    finally:
        ANIMATION_SLOT.release()
    response = _file(animation, CONTENT_TYPES[kind], name, download=False)
    response["ETag"], response["Cache-Control"] = etag, f"private, max-age={MAX_AGE}"
    return response


def _export_error(request: HttpRequest, status: int, reason: str) -> HttpResponse:
    response = render(request, "trajectories/refused.html", {"reason": reason}, status=status)
    if status == 503:
        response["Retry-After"] = "60"
    return response


@account_optional
@require_safe
def run_export(request: HttpRequest, slug: str, kind: str) -> HttpResponseBase:
    """Trajectories, metrics or the journal of a run, streamed."""
    if kind == "journal":
        return _journal(request, get_run_of_team(request.user, slug))
    run = get_run(request.user, slug)
    if kind not in RUN_EXPORTS:
        raise Http404(f"Unknown export format. Available: {', '.join(RUN_EXPORTS)}, journal.")
    make, content_type, name = RUN_EXPORTS[kind]
    compressible = content_type != PARQUET  # already compressed
    return streamed(request, make(run), content_type, f"{run.slug}-{name}", compressible=compressible)


def _journal(request: HttpRequest, run: Run) -> HttpResponseBase:
    path = run_files.journal(run)
    if path is None:
        reason = "The journal of this run is not on this machine: it is where the run was trained."
        return _export_error(request, 404, reason)
    return streamed(request, export_run.journal(path), LINES, f"{run.slug}-{JOURNAL_FILE}", compressible=True)
