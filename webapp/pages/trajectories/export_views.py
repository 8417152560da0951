"""Downloads of a trajectory (by its run's readers or by share link) and of a whole run."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_safe

from webapp.core.streaming import streamed
from webapp.explorer.trajectory_filters import Filters, filter_trajectories
from webapp.pages.trajectory_page import gone, private
from webapp.runs.access import get_run, get_run_of_team
from webapp.runs.actions import record_run
from webapp.teams.access import role_in_team
from webapp.teams.decorators import account_optional
from webapp.teams.models import AuditAction
from webapp.trajectories.access import get_trajectory
from webapp.trajectories.exports import run_downloads, trajectory_downloads
from webapp.trajectories.exports.download_refused import DownloadRefused
from webapp.trajectories.exports.export_document import shared_document
from webapp.trajectories.exports.run_downloads import JOURNAL, OF_TRAJECTORIES
from webapp.trajectories.render.drawing_queue import RETRY_AFTER
from webapp.trajectories.serialize import turn_events
from webapp.trajectories.sharing.share_links import find_link

View = Callable[..., HttpResponseBase]


def _explain_refusal(view: View) -> View:
    """Decorate a view to show the reason if a download is refused."""

    @wraps(view)
    def answer(request: HttpRequest, *arguments: Any, **keywords: Any) -> HttpResponseBase:
        try:
            return view(request, *arguments, **keywords)
        except DownloadRefused as refusal:
            return _export_error(request, refusal.status, str(refusal))

    return answer


@account_optional
@require_safe
@_explain_refusal
def trajectory_export(request: HttpRequest, slug: str, kind: str) -> HttpResponseBase:
    """Send JSON, text, WebP or GIF to users who may read the run."""
    trajectory = get_trajectory(request.user, slug)
    _require_kind(kind, trajectory_downloads.KINDS)
    inside = role_in_team(request.user, trajectory.run.team_id) is not None
    return trajectory_downloads.readers_download(request, trajectory, kind, inside=inside)


@require_safe
def shared_export(request: HttpRequest, token: str, kind: str) -> HttpResponseBase:
    """Send an export to holders of a link, without the trajectory's ids inside the team."""
    link = find_link(token)
    if link is None:
        return gone(request)
    trajectory = link.trajectory
    _require_kind(kind, trajectory_downloads.KINDS)

    def data() -> dict[str, Any]:
        return shared_document(trajectory, turn_events(trajectory))

    try:
        name = f"iteration-{trajectory.iteration}"
        response = trajectory_downloads.download(request, trajectory, kind, name, data)
    except DownloadRefused as refusal:
        response = _export_error(request, refusal.status, str(refusal))
    return private(response, link)


def _require_kind(kind: str, kinds: tuple[str, ...]) -> None:
    if kind not in kinds:
        raise Http404(f"Unknown export format. Available: {', '.join(kinds)}.")


def _export_error(request: HttpRequest, status: int, reason: str) -> HttpResponse:
    response = render(request, "trajectories/refused.html", {"reason": reason}, status=status)
    if status == 503:
        response["Retry-After"] = str(RETRY_AFTER)
    return response


@account_optional
@require_safe
@_explain_refusal
def run_export(request: HttpRequest, slug: str, kind: str) -> HttpResponseBase:
    """Stream trajectories, metrics or the journal of a run.

    A query contains the explorer's filters of trajectories, which metrics and the journal ignore.
    """
    if kind == JOURNAL:
        run = get_run_of_team(request.user, slug)
        download = run_downloads.journal_download(run)
    else:
        run = get_run(request.user, slug)
        _require_kind(kind, run_downloads.KINDS)
        inside = role_in_team(request.user, run.team_id) is not None
        filters, errors = Filters.parse(request.GET) if kind in OF_TRAJECTORIES else (Filters(), {})
        if errors:
            reasons = " ".join(f"{name}: {reason.replace('; ignored.', '.')}" for name, reason in errors.items())
            return _export_error(request, 400, f"Nothing was exported. {reasons}")
        trajectories = filter_trajectories(run, filters if inside else filters.without_annotations())
        download = run_downloads.run_download(run, kind, trajectories, inside=inside)
    if request.user.is_authenticated:  # a run that anyone may read is no secret
        record_run(AuditAction.EXPORTED, run, file=download.name)
    return streamed(request, download.chunks, download.content_type, download.name, compressible=download.compressible)
