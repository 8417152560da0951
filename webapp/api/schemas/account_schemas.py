"""Response schemas of the signed-in user, and of the audit log."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from ninja import Schema
from pydantic import Field


class Me(Schema):
    """The authenticated caller."""

    username: str
    scopes: list[str]
    teams: list[MembershipOut]


class MembershipOut(Schema):
    """A team of the caller, and the role in it."""

    slug: str
    name: str
    role: Literal["viewer", "member", "admin"]


class AuditEntryOut(Schema):
    """An entry of the audit log."""

    at: datetime
    username: str = Field(description="Name of the account at that time; empty: the site itself.")
    action: str
    subject: str = Field(description="Describes the object.")
    path: str = Field(description="Page of the object; may be empty.")
    address: str | None = Field(description="Network address.")
    means: str = Field(description="Browser or API token.")
    details: dict[str, Any]


class AuditPage(Schema):
    """A page of the audit log, newest first."""

    items: list[AuditEntryOut]
    next_cursor: str | None = None


Me.model_rebuild()
