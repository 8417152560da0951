"""Idempotent requests: a request repeated with the same Idempotency-Key header returns the run of the first one."""

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
        description="A unique key of your choice for this request, kept for 24 hours. Repeated with the same body, it "
        "returns the same run (status 200) instead of a second one; with another body, 409.",
    ),
]


def do_once(user: User, operation: str, key: str | None, payload: Any, make: Callable[[], Run]) -> tuple[Run, bool]:
    """Return the run from `make`, or from the earlier request with this key, and True if it is new.

    Raises Problem 409 if the key was used for another request. If `make` fails, the key can be used again.
    """
    if key is None:
        return make(), True
    fingerprint = hashlib.sha256(json.dumps(payload, sort_keys=True, default=str).encode()).hexdigest()
    with transaction.atomic():
        entry, created = IdempotencyKey.objects.select_related("run__team", "run__author").get_or_create(
            user=user, operation=operation, key=key, defaults={"fingerprint": fingerprint}
        )
        if created:
            entry.run = make()
            entry.save(update_fields=["run"])
            return entry.run, True
    if entry.fingerprint != fingerprint or entry.run is None:
        raise Problem(
            409,
            f"The Idempotency-Key {key!r} was used for another request within the last 24 hours. Nothing was created. "
            "Use a new key for a new request.",
            code="key_reused",
        )
    return entry.run, False


def do_expire_keys(now: datetime) -> int:
    """Delete expired keys. Returns their number."""
    return IdempotencyKey.objects.filter(created_at__lt=now - KEEP).delete()[0]
