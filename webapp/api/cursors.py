"""Opaque, signed cursors of list pages."""

from __future__ import annotations

from typing import Any

from django.core import signing

from webapp.api.errors import invalid


def pack(kind: str, position: list[Any]) -> str:
    """Cursor of the position after which the next page begins."""
    return signing.dumps(position, salt=f"api-{kind}", compress=True)


def unpack(kind: str, text: str) -> list[Any]:
    """Position of a cursor. Raises Problem 422 if it was not issued for this list."""
    try:
        position = signing.loads(text, salt=f"api-{kind}")
    except signing.BadSignature:
        raise invalid({"cursor": "is not a cursor of this list: start again without it"}) from None
    assert isinstance(position, list)
    return position
