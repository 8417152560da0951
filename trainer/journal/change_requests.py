"""Requests to change settings of a run while it trains, or to rewind it: a file in the run's folder.

The site's worker writes it, or `python -m trainer change`; the trainer reads it before each iteration.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from trainer.journal.protocol import CHANGES_FILE

MAX_BYTES = 1 << 20
"""A longer file of requests is not read."""


class ChangeRequest(BaseModel):
    """A person's request to change settings of a run from its next iteration on, or from a kept checkpoint on."""

    model_config = ConfigDict(extra="forbid")

    request: str = Field(min_length=1, max_length=64)
    changes: dict[str, str] = Field(max_length=20)
    rewind_to: int | None = Field(default=None, ge=0)
    by: str = Field(default="", max_length=150)
    why: str = Field(default="", max_length=1000)

    @model_validator(mode="after")
    def check_purpose(self) -> Self:
        """Require anything to do."""
        if not self.changes and self.rewind_to is None:
            raise ValueError("a request changes a setting or rewinds the run")
        return self


class _Requests(BaseModel):
    requests: list[ChangeRequest] = Field(max_length=1000)


def read_requests(folder: Path) -> list[ChangeRequest]:
    """Return the requests in a run's folder, the oldest first; empty without a file.

    Raises:
        ValueError: the file contains something else.
    """
    try:
        with (folder / CHANGES_FILE).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return []
    try:
        if len(data) > MAX_BYTES:
            raise ValueError
        return _Requests.model_validate_json(data).requests
    except ValueError:
        raise ValueError(f"{CHANGES_FILE} contains no list of requested changes") from None


def request_change(
    folder: Path, values: Mapping[str, str], by: str, why: str, rewind_to: int | None = None
) -> ChangeRequest:
    """Add a request to a run's folder, atomically. Raises ValueError if the file contains something else."""
    made = ChangeRequest(
        request=secrets.token_hex(8), changes=dict(values), rewind_to=rewind_to, by=by[:150], why=why[:1000]
    )
    requests = [*read_requests(folder), made]
    partial = folder / f".{CHANGES_FILE}.{made.request}"
    partial.write_text(json.dumps({"requests": [request.model_dump() for request in requests]}))
    partial.rename(folder / CHANGES_FILE)
    return made
