"""Downloads: one trajectory for readers of its run and for holders of a share link, a whole run for its readers."""

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
from webapp.trajectories.render.animation import CONTENT_TYPES, TooLong, animate
from webapp.trajectories.sharing.public import shared_data
from webapp.trajectories.sharing.share_links import find_link
from webapp.trajectories.token_view import tokens_of

ANIMATING = threading.BoundedSemaphore(1)
"""Each animation keeps a core busy for seconds: one at a time in each process."""
PATIENCE = 20.0
FRESH = 300
PARQUET, LINES = "application/vnd.apache.parquet", "application/x-ndjson; charset=utf-8"

Maker = Callable[[Run], Iterator[bytes]]
RUN_EXPORTS: dict[str, tuple[Maker, str, str]] = {
    "parquet": (export_run.parquet, PARQUET, "trajectories.parquet"),
    "jsonl": (export_run.json_lines, LINES, "trajectories.jsonl"),
    "metrics.parquet": (export_run.metrics_parquet, PARQUET, "metrics.parquet"),
    "metrics.csv": (export_run.metrics_csv, "text/csv; charset=utf-8", "metrics.csv"),
}


@account_optional
@require_safe
def trajectory_export(request: HttpRequest, slug: str, kind: str) -> HttpResponseBase:
    """JSON, text, WebP or GIF for those who may read the run."""
    found = get_trajectory(request.user, slug)

    def told() -> dict[str, Any]:
        return document(found, _events(found), found.run.slug)

    return _export(request, found, kind, slug, told)


@require_safe
def shared_export(request: HttpRequest, token: str, kind: str) -> HttpResponseBase:
    """The same for holders of a link, without the trajectory's place in the team."""
    link = find_link(token)
    if link is None:
        return gone(request)
    found = link.trajectory

    def told() -> dict[str, Any]:
        return shared_document(found, _events(found))

    return private(_export(request, found, kind, f"iteration-{found.iteration}", told), link)


def _export(
    request: HttpRequest, found: Trajectory, kind: str, name: str, told: Callable[[], dict[str, Any]]
) -> HttpResponse:
    file = f"{found.group.environment}-{name}.{kind}".lower()
    if kind == "json":
        text = json.dumps(told() | {"tokens": tokens_of(found)}, ensure_ascii=False, indent=1)
        return _file(text, "application/json", file, download=True)
    if kind == "txt":
        return _file(transcript(found, _events(found)), "text/plain; charset=utf-8", file, download=True)
    if kind in CONTENT_TYPES:
        return _animation(request, found, kind, file)
    raise Http404("There is no such export: json, txt, webp and gif are offered.")


def _events(found: Trajectory) -> list[Any]:
    return list(found.turns.order_by("number").values_list("event", flat=True))


def _file(data: str | bytes, content_type: str, name: str, *, download: bool) -> HttpResponse:
    response = HttpResponse(data, content_type=content_type)
    response["Content-Disposition"] = content_disposition_header(download, name) or "inline"
    response["Cache-Control"] = "private, no-cache"
    return response


def _animation(request: HttpRequest, found: Trajectory, kind: str, name: str) -> HttpResponse:
    facts = (STYLE, found.pk, found.last_seq, found.status, kind)
    etag = f'"{hashlib.sha256(repr(facts).encode()).hexdigest()[:24]}"'
    unchanged = get_conditional_response(request, etag=etag)
    if unchanged is not None:
        return unchanged
    data = shared_data(found)
    if not ANIMATING.acquire(timeout=PATIENCE):
        return _refused(request, 503, "Other animations are being made just now. Try again in a minute.")
    try:
        moving = animate(data, caption(found, len(data["turns"])), kind)
    except TooLong as error:
        return _refused(request, 413, str(error))
    finally:
        ANIMATING.release()
    response = _file(moving, CONTENT_TYPES[kind], name, download=False)
    response["ETag"], response["Cache-Control"] = etag, f"private, max-age={FRESH}"
    return response


def _refused(request: HttpRequest, status: int, why: str) -> HttpResponse:
    response = render(request, "trajectories/refused.html", {"why": why}, status=status)
    if status == 503:
        response["Retry-After"] = "60"
    return response


@account_optional
@require_safe
def run_export(request: HttpRequest, slug: str, kind: str) -> HttpResponseBase:
    """Trajectories, metrics or the journal of a run, sent while they are read."""
    if kind == "journal":
        return _journal(request, get_run_of_team(request.user, slug))
    run = get_run(request.user, slug)
    if kind not in RUN_EXPORTS:
        raise Http404(f"There is no such export: {', '.join(RUN_EXPORTS)} and journal are offered.")
    make, content_type, name = RUN_EXPORTS[kind]
    compressible = content_type != PARQUET  # which is compressed already
    return streamed(request, make(run), content_type, f"{run.slug}-{name}", compressible=compressible)


def _journal(request: HttpRequest, run: Run) -> HttpResponseBase:
    found = run_files.journal(run)
    if found is None:
        why = "The journal of this run is not on this machine: it stayed where the run was trained."
        return _refused(request, 404, why)
    return streamed(request, export_run.journal(found), LINES, f"{run.slug}-{JOURNAL_FILE}", compressible=True)
