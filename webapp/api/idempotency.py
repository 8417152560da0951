"""Requests that are not done twice: the header Idempotency-Key names one, and its repetition gets the first's run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Annotated, Any

from django.db import transaction
from ninja import Header
from pydantic import Field

from webapp.api.errors import Problem
from webapp.api.models import IdempotencyKey
from webapp.runs.models import Run
from webapp.teams.models import User

KEEP = timedelta(hours=24)
Key = Annotated[
    str | None,
    Field(min_length=1, max_length=200, pattern=r"^[\x20-\x7e]+$"),
    Header(
        None,
        alias="Idempotency-Key",
        description="A name of your choice for this request, kept for 24 hours. Sent again with the same body, it "
        "gives the same run (status 200) instead of a second one; with another body, 409.",
    ),
]


def do_once(user: User, operation: str, key: str | None, asked: Any, make: Callable[[], Run]) -> tuple[Run, bool]:
    """What `make` makes, and whether it was made now. Raises Problem 409 if the key stood for something else.

    When `make` fails, the key is free again.
    """
    if key is None:
        return make(), True
    fingerprint = hashlib.sha256(json.dumps(asked, sort_keys=True, default=str).encode()).hexdigest()
    with transaction.atomic():
        known, fresh = IdempotencyKey.objects.select_related("run__team", "run__author").get_or_create(
            user=user, operation=operation, key=key, defaults={"fingerprint": fingerprint}
        )
        if fresh:
            known.run = make()
            known.save(update_fields=["run"])
            return known.run, True
    if known.fingerprint != fingerprint or known.run is None:
        raise Problem(
            409,
            f"The Idempotency-Key {key!r} was used for another request within the last 24 hours. Nothing was made. "
            "Take a new key for a new request.",
            code="key_reused",
        )
    return known.run, False


def do_forget(now: datetime) -> int:
    """Drop keys nobody repeats any more. Returns how many."""
    return IdempotencyKey.objects.filter(created_at__lt=now - KEEP).delete()[0]
