"""Endpoints for runs trained elsewhere: import a journal, append to a growing one, add images of its observations."""

from __future__ import annotations

from typing import Annotated, Any

from django.conf import settings
from django.http import HttpRequest
from ninja import Query, Router, Schema, Status
from pydantic import Field

from trainer.journal.observation_images import EXTENSIONS, MAX_IMAGE_BYTES
from webapp.api import uploads
from webapp.api.auth import caller
from webapp.api.errors import Problem, refused
from webapp.api.idempotency import Key, do_once
from webapp.api.schemas.run_schemas import JournalOut, ObservationImageOut, RunDetail
from webapp.api.schemas.shared_schemas import ImageHash, RunSlug, Slug, Text, Visibility
from webapp.api.serializers import journal_out, run_detail
from webapp.ingest.imports import NotImportable, do_create_imported_run
from webapp.runs.models import Run
from webapp.runs.queue.run_quotas import do_count_import
from webapp.trajectories.observation_images import ImageRefused

router = Router(tags=["journals"])
LINES = {"type": "string", "format": "binary", "description": "Lines of a journal, plain or gzip."}
FORM = {
    "type": "object",
    "required": ["file"],
    "properties": {"file": {"type": "string", "format": "binary", "description": "journal.jsonl, plain or gzip."}},
}
IMAGE = {"type": "string", "format": "binary", "description": f"The file, at most {MAX_IMAGE_BYTES:,} bytes."}


class Import(Schema):
    """Options of an import."""

    title: Text = Field("", description="Default: the journal's own title.")
    team: Slug | None = Field(None, description="Required only with a session whose user is in several teams.")
    visibility: Visibility = Field("team", description="Who may see the run: its author, the team, or all.")
    growing: bool = Field(False, description="More events will follow; until then the run counts as running.")
    skip_bad_lines: bool = Field(False, description="Replace unreadable lines with a notice.")


@router.post(
    "/runs/import",
    response={200: RunDetail, 201: RunDetail} | refused(409, 413),
    operation_id="import_run",
    summary="Import a run that was trained elsewhere",
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/x-ndjson": {"schema": LINES},
                "application/gzip": {"schema": LINES},
                "multipart/form-data": {"schema": FORM},
            },
        }
    },
)
def import_run(request: HttpRequest, options: Query[Import], key: Key = None) -> Status[RunDetail]:
    """The body is journal.jsonl, complete or its beginning. `journal.problem` is set if it could not be read entirely.

    Of a large body perhaps only the beginning is read: append the rest from `journal.offset` on.

    With an Idempotency-Key, the same parameters and the same first line return the same run.
    """
    requester = caller(request)
    team = requester.team_to_write_in(options.team)
    stream = uploads.pieces(request, _max_upload_bytes())
    started, data = uploads.first_event(stream)

    def make() -> Run:
        do_count_import(team)
        try:
            return do_create_imported_run(
                team,
                requester.user,
                started,
                title=options.title,
                growing=options.growing,
                visibility=Run.Visibility(options.visibility),
            )
        except NotImportable as error:
            raise Problem(422, f"This journal cannot be imported: {error}. Nothing was imported.") from None

    identity = options.model_dump() | {"team": team.slug, "started": started.model_dump()}
    run, created = do_once(requester.user, "import", key, identity, make)

    def rest() -> Any:
        yield data
        yield from stream

    run, left_out = uploads.ingest_stream(
        run, 0, rest(), growing=options.growing, skip_bad_lines=options.skip_bad_lines
    )
    detail = run_detail(request, run)
    detail.journal.left_out = left_out
    return Status(201 if created else 200, detail)


@router.get(
    "/runs/{slug}/journal",
    response={200: JournalOut} | refused(),
    operation_id="get_journal",
    summary="Get a journal's import status",
)
def get_journal(request: HttpRequest, slug: RunSlug) -> JournalOut:
    """`offset` is the start of the next piece. Only for members of the run's team."""
    return journal_out(request, caller(request).run_of_team(slug))


class JournalPiece(Schema):
    """Position of a piece of a journal."""

    offset: Annotated[int, Field(ge=0, le=2**53, description="Offset of its first byte in the uncompressed journal.")]
    growing: bool = Field(True, description="More events will follow; until then the run counts as running.")
    skip_bad_lines: bool = Field(False, description="Replace unreadable lines with a notice.")


@router.put(
    "/runs/{slug}/journal",
    response={200: JournalOut} | refused(409, 413),
    operation_id="append_journal",
    summary="Append to a journal",
    openapi_extra={
        "requestBody": {
            "content": {"application/x-ndjson": {"schema": LINES}, "application/gzip": {"schema": LINES}},
        }
    },
)
def append_journal(request: HttpRequest, slug: RunSlug, piece: Query[JournalPiece]) -> JournalOut:
    """Only complete lines are read, and of a large piece perhaps not all: continue at the response's `offset`.

    409 returns the offset if yours differs.

    An empty piece signals that the sender is alive (`growing`) or has finished. 422 if a line cannot be read.
    """
    run = caller(request).run_to_change(slug)
    if not run.imported:
        raise Problem(409, "This run is trained on this site; its journal cannot be uploaded.", code="not_imported")
    if piece.offset != run.journal_offset:
        raise uploads.wrong_offset(run.journal_offset)
    stream = uploads.pieces(request, _max_upload_bytes())
    run, left_out = uploads.ingest_stream(
        run, piece.offset, stream, growing=piece.growing, skip_bad_lines=piece.skip_bad_lines
    )
    if run.journal_error:
        raise Problem(422, run.journal_error, code="unreadable_line", details={"offset": run.journal_offset})
    return journal_out(request, run, left_out)


@router.put(
    "/runs/{slug}/images/{sha256}",
    response={200: ObservationImageOut, 201: ObservationImageOut} | refused(409, 413, 415, 503),
    operation_id="put_image",
    summary="Add an image of an observation",
    openapi_extra={"requestBody": {"required": True, "content": {kind: {"schema": IMAGE} for kind in EXTENSIONS}}},
)
def put_image(request: HttpRequest, slug: RunSlug, sha256: ImageHash) -> Status[ObservationImageOut]:
    """Before the turns that refer to it. The same image again changes nothing (200).

    PNG, JPEG or WebP, as Content-Type states. 422 if it is no such image, is damaged, has too many pixels, or another
    hash.
    """
    run = caller(request).run_to_change(slug)
    if not run.imported:
        raise Problem(409, "This run is trained on this site; its images cannot be uploaded.", code="not_imported")
    kind = next((kind for kind in EXTENSIONS if kind == request.content_type), None)
    if kind is None:
        raise Problem(415, f"An image is {', '.join(EXTENSIONS)}: state which one as Content-Type.", code="not_image")
    data = request.read(MAX_IMAGE_BYTES + 1)
    if len(data) > MAX_IMAGE_BYTES:
        raise Problem(413, f"An image may have at most {MAX_IMAGE_BYTES:,} bytes. Send it smaller, or as JPEG.")
    try:
        image, new = uploads.do_store_image(run, sha256, kind, data)
    except ImageRefused as error:
        raise Problem(422, str(error), code="bad_image") from None
    return Status(201 if new else 200, ObservationImageOut(**image.model_dump()))


def _max_upload_bytes() -> int:
    return int(settings.ECHOSCOPE_UPLOAD_MB * 2**20)
