"""Where a page of a list ended, as an opaque text: signed, so that only what was given out comes back."""

from __future__ import annotations

from typing import Any

from django.core import signing

from webapp.api.errors import invalid


def pack(kind: str, place: list[Any]) -> str:
    """The text for the place behind which the next page begins."""
    return signing.dumps(place, salt=f"api-{kind}", compress=True)


def unpack(kind: str, text: str) -> list[Any]:
    """The place in a text. Raises Problem 422 for any that was not given out for this list."""
    try:
        place = signing.loads(text, salt=f"api-{kind}")
    except signing.BadSignature:
        raise invalid({"cursor": "is none that this list gave out: begin again without it"}) from None
    assert isinstance(place, list)
    return place
