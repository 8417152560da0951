"""Reading of the audit log: filters, and files for other programs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from typing import Any

from django.db.models import QuerySet

from webapp.core.streaming import release_connection
from webapp.teams.models import AuditEntry

COLUMNS = ("at", "username", "action", "subject", "team", "path", "address", "means", "details")
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Beginnings of cells that spreadsheets execute."""
BATCH = 1000


@dataclass(frozen=True)
class AuditFilter:
    """Conditions on entries; empty ones select all. Days are in UTC, both included."""

    person: str = ""
    action: str = ""
    since: date | None = None
    until: date | None = None

    def of(self, entries: QuerySet[AuditEntry]) -> QuerySet[AuditEntry]:
        """Return the matching entries, newest first. A person is also found by their present name."""
        if self.person:
            named = entries.filter(username__iexact=self.person)
            entries = named | entries.filter(user__username__iexact=self.person)
        if self.action:
            entries = entries.filter(action=self.action)
        if self.since:
            entries = entries.filter(at__date__gte=self.since)
        if self.until:
            entries = entries.filter(at__date__lte=self.until)
        return entries.select_related("team").order_by("-pk")


def as_row(entry: AuditEntry) -> dict[str, Any]:
    """Return an entry as JSON values, by COLUMNS."""
    return {
        "at": entry.at.isoformat(),
        "username": entry.username,
        "action": entry.action,
        "subject": entry.subject,
        "team": entry.team.slug if entry.team else None,
        "path": entry.path,
        "address": entry.address,
        "means": entry.means,
        "details": entry.details,
    }


def _rows(entries: QuerySet[AuditEntry]) -> Iterator[dict[str, Any]]:
    """Yield all rows, newest first, in batches; the database connection is released between them."""
    batch = list(entries[:BATCH])
    while batch:
        yield from map(as_row, batch)
        release_connection()
        batch = list(entries.filter(pk__lt=batch[-1].pk)[:BATCH])


def _jsonl(entries: QuerySet[AuditEntry]) -> Iterator[bytes]:
    for row in _rows(entries):
        yield json.dumps(row, ensure_ascii=False).encode() + b"\n"


def _csv(entries: QuerySet[AuditEntry]) -> Iterator[bytes]:
    yield _line(COLUMNS)
    for row in _rows(entries):
        yield _line([_cell(row[name]) for name in COLUMNS])


def _line(cells: Any) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerow(cells)
    return text.getvalue().encode()


def _cell(value: Any) -> str:
    """Return the text of a cell, with an apostrophe before formulas: names are chosen by users."""
    text = "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"'{text}" if text.startswith(FORMULA) else text


FORMATS: dict[str, tuple[str, Callable[[QuerySet[AuditEntry]], Iterator[bytes]]]] = {
    "csv": ("text/csv; charset=utf-8", _csv),
    "jsonl": ("application/x-ndjson", _jsonl),
}
"""Media type and writer of each format."""
