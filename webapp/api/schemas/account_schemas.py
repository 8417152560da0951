"""Response schemas of the signed-in user."""

from __future__ import annotations

from typing import Literal

from ninja import Schema


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


Me.model_rebuild()
