"""Endpoints of exports: files of a whole run and of one trajectory, and images of its observations. Read-only."""

from __future__ import annotations

from typing import Annotated, Any

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from ninja import Path, Query, Router

from trainer.journal.observation_images import EXTENSIONS
from webapp.api.auth import caller
from webapp.api.errors import Problem, refused
from webapp.api.routes.trajectory_filter import TrajectoryFilter
from webapp.api.schemas.shared_schemas import ImageHash, RunSlug, TrajectorySlug
from webapp.api.serializers import is_inside
from webapp.core.streaming import streamed
from webapp.explorer.trajectory_filters import filter_trajectories
from webapp.runs.actions import record_run
from webapp.teams.models import AuditAction
from webapp.trajectories.exports.image_response import image_response
from webapp.trajectories.exports.run_downloads import JOURNAL, RunExportKind, journal_download, run_download
from webapp.trajectories.exports.trajectory_downloads import TrajectoryExportKind, readers_download

router = Router(tags=["exports"])
RunKind = Annotated[RunExportKind, Path(description="Trajectories as parquet, jsonl or csv; metrics; the journal.")]
TrajectoryKind = Annotated[TrajectoryExportKind, Path(description="Document, transcript, or animation.")]


def _files(*media: str) -> dict[str, Any]:
    """Return the documented response of an operation that returns files of these media types."""
    document, file = {"type": "object"}, {"type": "string", "format": "binary"}
    content = {kind: {"schema": document if kind == "application/json" else file} for kind in media}
    return {"responses": {200: {"content": content}}}


@router.get(
    "/runs/{slug}/export/{kind}",
    response={200: None} | refused(413),
    operation_id="export_run",
    summary="Download trajectories, metrics or journal",
    openapi_extra=_files("application/vnd.apache.parquet", "application/x-ndjson", "text/csv"),
)
def export_run(
    request: HttpRequest, slug: RunSlug, kind: RunKind, query: Query[TrajectoryFilter]
) -> StreamingHttpResponse:
    """A stream, in the formats of docs/sharing.md. The filters are the same as for trajectories; metrics and journal
    ignore them. Only members of the run's team may read the journal."""
    requester = caller(request)
    if kind == JOURNAL:
        run = requester.run_of_team(slug)
        download = journal_download(run)
    else:
        run = requester.run(slug)
        inside = is_inside(request, run)
        trajectories = filter_trajectories(run, query.filters(inside=inside))
        download = run_download(run, kind, trajectories, inside=inside)
    record_run(AuditAction.EXPORTED, run, file=download.name)
    return streamed(request, download.chunks, download.content_type, download.name, compressible=download.compressible)


@router.get(
    "/trajectories/{slug}/export/{kind}",
    response={200: None} | refused(413, 503),
    operation_id="export_trajectory",
    summary="Download a trajectory",
    openapi_extra=_files("application/json", "text/plain", "image/webp", "image/gif"),
)
def export_trajectory(request: HttpRequest, slug: TrajectorySlug, kind: TrajectoryKind) -> HttpResponse:
    """The files of the trajectory's page (docs/sharing.md). 503 while the server draws other animations."""
    trajectory = caller(request).trajectory(slug)
    return readers_download(request, trajectory, kind, inside=is_inside(request, trajectory.run))


@router.get(
    "/trajectories/{slug}/images/{sha256}",
    response={200: None} | refused(),
    operation_id="get_image",
    summary="Download an image of an observation",
    openapi_extra=_files(*EXTENSIONS),
)
def get_image(request: HttpRequest, slug: TrajectorySlug, sha256: ImageHash) -> HttpResponse:
    """An image that `images` of one of the trajectory's turns names. 404 if the sender of the run did not send it."""
    trajectory = caller(request).trajectory(slug)
    response = image_response(request, trajectory, sha256)
    if response is None:
        raise Problem(404, f"Trajectory {slug} has no image {sha256}, or its sender did not send it.")
    response["Cache-Control"] = "private, no-store"
    return response
