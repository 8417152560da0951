"""Opaque, signed cursors of list pages."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeVar

from django.core import signing
from django.db.models import Model, Q, QuerySet

from webapp.api.errors import invalid

Row = TypeVar("Row", bound=Model)


def pack(kind: str, position: list[Any]) -> str:
    """Return the cursor of the position after which the next page begins."""
    return signing.dumps(position, salt=f"api-{kind}", compress=True)


def unpack(kind: str, text: str) -> list[Any]:
    """Return the position of a cursor. Raises Problem 422 if it was not issued for this list."""
    try:
        position = signing.loads(text, salt=f"api-{kind}")
    except signing.BadSignature:
        raise invalid({"cursor": "is not a cursor of this list: start again without it"}) from None
    assert isinstance(position, list)
    return position


def newest_first(
    rows: QuerySet[Row], kind: str, cursor: str | None, limit: int, time: str = "created_at"
) -> tuple[list[Row], str | None]:
    """Return a page of rows with `slug`, newest first, and the next page's cursor, if there is one.

    Raises Problem 422 for a cursor of another list.

    Args:
        time: column of their time.
    """
    if cursor:
        moment, slug = unpack(kind, cursor)
        created = datetime.fromisoformat(moment)
        rows = rows.filter(Q((f"{time}__lt", created)) | Q((time, created), slug__lt=slug))
    found_rows = list(rows.order_by(f"-{time}", "-slug")[: limit + 1])
    page: list[Any] = found_rows[:limit]
    following = pack(kind, [getattr(page[-1], time).isoformat(), page[-1].slug]) if len(found_rows) > limit else None
    return page, following
