"""Endpoint of a team's audit log. Read-only, for admins."""

from __future__ import annotations

import re
from datetime import date
from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Path, Query, Router, Schema
from pydantic import BeforeValidator, Field

from webapp.api import cursors
from webapp.api.auth import caller
from webapp.api.errors import Problem, refused
from webapp.api.schemas.account_schemas import AuditEntryOut, AuditPage
from webapp.api.schemas.shared_schemas import Cursor, Limit, Slug
from webapp.teams.access import require_admin
from webapp.teams.audit_reading import AuditFilter, as_row
from webapp.teams.models import AuditAction, AuditEntry

router = Router(tags=["teams"])
CURSOR = "audit"


def _written_as_a_day(value: Any) -> Any:
    """Refuse seconds since 1970, which pydantic would take."""
    if isinstance(value, str) and not re.fullmatch(r"\d{4}-\d\d-\d\d", value, re.ASCII):
        raise ValueError("must be a day such as 2026-11-30")
    return value


Day = Annotated[date, BeforeValidator(_written_as_a_day)]


class AuditQuery(Schema):
    """Filters of the audit log."""

    person: str = Field("", max_length=150, description="Name of the account.")
    action: AuditAction | None = Field(None, description="What was done.")
    since: Day | None = Field(None, description="First day (UTC).")
    until: Day | None = Field(None, description="Last day (UTC), included.")
    limit: Limit = 30
    cursor: Cursor = None


@router.get(
    "/teams/{slug}/audit",
    response={200: AuditPage} | refused(),
    operation_id="list_audit",
    summary="Read the audit log",
)
def list_audit(
    request: HttpRequest,
    slug: Annotated[Slug, Path(description="The team's slug, as in `get_me`.")],
    query: Query[AuditQuery],
) -> AuditPage:
    """Actions in the team and who did them, newest first. Only for its admins."""
    requester = caller(request)
    team = next((team for team in requester.teams() if team.slug == slug), None)
    if team is None:
        raise Problem(404, f"There is no team {slug}, or you are not in it.")
    require_admin(requester.user, team.pk)
    conditions = AuditFilter(query.person, query.action or "", query.since, query.until)
    entries = conditions.of(AuditEntry.objects.filter(team=team))
    if query.cursor:
        entries = entries.filter(pk__lt=cursors.unpack(CURSOR, query.cursor)[0])
    matches = list(entries[: query.limit + 1])
    page = matches[: query.limit]
    following = cursors.pack(CURSOR, [page[-1].pk]) if len(matches) > query.limit else None
    return AuditPage(items=[AuditEntryOut.model_validate(as_row(entry)) for entry in page], next_cursor=following)
