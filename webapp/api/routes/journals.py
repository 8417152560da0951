"""Runs trained elsewhere, over HTTP: a journal as a new run, and further pieces of one that grows."""

from __future__ import annotations

from typing import Annotated, Any

from django.conf import settings
from django.http import HttpRequest
from ninja import Query, Router, Schema, Status
from pydantic import Field

from webapp.api import schemas, uploads
from webapp.api.auth import caller
from webapp.api.errors import Problem, refused
from webapp.api.idempotency import Key, do_once
from webapp.api.serializers import journal_out, run_detail
from webapp.ingest.imports import NotImportable, do_create_imported_run
from webapp.runs.models import Run

router = Router(tags=["journals"])
LINES = {"type": "string", "format": "binary", "description": "Lines of a journal, plain or gzip."}
FORM = {
    "type": "object",
    "required": ["file"],
    "properties": {"file": {"type": "string", "format": "binary", "description": "journal.jsonl, plain or gzip."}},
}


class Import(Schema):
    """How a journal is imported."""

    title: schemas.Text = Field("", description="Without it: the journal's own.")
    team: schemas.Slug | None = Field(None, description="Needed with a session in several teams only.")
    visibility: schemas.Visibility = "team"
    growing: bool = Field(False, description="More is to come: the run counts as running meanwhile.")
    skip_bad_lines: bool = Field(False, description="Put a notice in the place of lines that cannot be read.")


@router.post(
    "/runs/import",
    response={200: schemas.RunDetail, 201: schemas.RunDetail} | refused(409, 413),
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
def import_run(request: HttpRequest, asked: Query[Import], key: Key = None) -> Status[schemas.RunDetail]:
    """The body is journal.jsonl, whole or its beginning. `journal.problem` says if it could not be read to its end.

    With an Idempotency-Key, the same parameters and the same first line give the same run.
    """
    who = caller(request)
    team = who.team_to_write_in(asked.team)
    stream = uploads.pieces(request, _max_upload_bytes())
    started, data = uploads.first_event(stream)

    def make() -> Run:
        try:
            return do_create_imported_run(
                team,
                who.user,
                started,
                title=asked.title,
                growing=asked.growing,
                visibility=Run.Visibility(asked.visibility),
            )
        except NotImportable as error:
            raise Problem(422, f"This journal cannot be imported: {error}. Nothing was imported.") from None

    named = asked.model_dump() | {"team": team.slug, "started": started.model_dump()}
    run, fresh = do_once(who.user, "import", key, named, make)

    def rest() -> Any:
        yield data
        yield from stream

    run = uploads.take_in(run, 0, rest(), growing=asked.growing, skip_bad_lines=asked.skip_bad_lines)
    return Status(201 if fresh else 200, run_detail(request, run))


@router.get(
    "/runs/{slug}/journal",
    response={200: schemas.JournalOut} | refused(),
    operation_id="get_journal",
    summary="See how much of a journal is known",
)
def get_journal(request: HttpRequest, slug: schemas.RunSlug) -> schemas.JournalOut:
    """`offset` is where the next piece begins."""
    return journal_out(caller(request).run(slug))


class JournalPiece(Schema):
    """Where a piece of a journal belongs."""

    offset: Annotated[int, Field(ge=0, le=2**53, description="Of its first byte in the journal, unpacked.")]
    growing: bool = Field(True, description="More is to come: the run counts as running meanwhile.")
    skip_bad_lines: bool = Field(False, description="Put a notice in the place of lines that cannot be read.")


@router.put(
    "/runs/{slug}/journal",
    response={200: schemas.JournalOut} | refused(409, 413),
    operation_id="append_journal",
    summary="Send the next piece of a journal",
    openapi_extra={
        "requestBody": {
            "content": {"application/x-ndjson": {"schema": LINES}, "application/gzip": {"schema": LINES}},
        }
    },
)
def append_journal(request: HttpRequest, slug: schemas.RunSlug, piece: Query[JournalPiece]) -> schemas.JournalOut:
    """Only complete lines are taken: continue at the answer's `offset`. 409 tells the offset when yours is another.

    An empty piece says that the sender lives (`growing`) or has finished. 422 when a line cannot be read.
    """
    run = caller(request).run_to_change(slug)
    if not run.imported:
        raise Problem(409, "This run is trained here and writes its journal itself.", code="not_imported")
    if piece.offset != run.journal_offset:
        raise uploads.wrong_offset(run.journal_offset)
    stream = uploads.pieces(request, _max_upload_bytes())
    run = uploads.take_in(run, piece.offset, stream, growing=piece.growing, skip_bad_lines=piece.skip_bad_lines)
    if run.journal_error:
        raise Problem(422, run.journal_error, code="unreadable_line", details={"offset": run.journal_offset})
    return journal_out(run)


def _max_upload_bytes() -> int:
    return int(settings.ECHOSCOPE_UPLOAD_MB * 2**20)
