"""Request and response schemas of reports."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from ninja import Path, Schema
from pydantic import Field

from webapp.api.schemas.shared_schemas import Slug, StrictSchema, TeamOut

ReportVisibility = Literal["team", "link", "public"]
ReportSlug = Annotated[Slug, Path(description="The report's public id, as in its address.")]
Title = Annotated[str, Field(pattern=r"^[^\x00]*\S[^\x00]*$", max_length=200)]
Body = Annotated[str, Field(pattern=r"^[^\x00]*$", max_length=200_000)]


class ReportOut(Schema):
    """A report, without its text."""

    slug: str
    url: str
    title: str
    team: TeamOut | None = Field(description="Null outside the team.")
    author: str | None
    visibility: ReportVisibility = Field(description="“public”: as “link”, and search engines may index it.")
    version: int = Field(description="Number of its newest version, from 1.")
    created_at: datetime
    edited_at: datetime


class ReportDetail(ReportOut):
    """A report with its text."""

    body: str = Field(description="Markdown; a line that holds only an address of this site is an embed.")


class ReportPage(Schema):
    """A page of a list of reports."""

    items: list[ReportOut]
    next_cursor: str | None = Field(description="`cursor` of the next page; null on the last one.")


class NewReport(StrictSchema):
    """A report to create."""

    title: Title
    body: Body = Field(default="", description="Markdown.")
    team: Slug | None = Field(default=None, description="Required only with a session whose user is in several teams.")
    visibility: ReportVisibility = "team"


class ReportPatch(StrictSchema):
    """Fields to change; omitted fields keep their values."""

    title: Title | None = None
    body: Body | None = Field(default=None, description="Markdown.")
    version: int | None = Field(
        default=None,
        ge=1,
        le=2**31 - 1,
        description="The version that was read. Required with a title or a body; 409 if a newer one was saved.",
    )
    visibility: ReportVisibility | None = None
