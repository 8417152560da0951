"""Types and base classes that the schemas of several resources share."""

from __future__ import annotations

from typing import Annotated, Literal

from ninja import Path, Schema
from pydantic import ConfigDict, Field

Text = Annotated[str, Field(pattern=r"^[^\x00]*$", max_length=200)]
"""PostgreSQL stores no NUL character."""
Slug = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$", max_length=40)]
Whole = Annotated[int, Field(ge=0, le=2**31 - 1)]
State = Literal["queued", "starting", "running", "paused", "stopped", "finished", "failed", "cancelled"]
Visibility = Literal["private", "team", "link"]
Priority = Literal["low", "normal", "high"]
Queue = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9_.-]+$", max_length=100, description="A device class; “training” = any worker.")
]
Gpus = Annotated[int, Field(strict=True, ge=0, le=64, description="GPUs reserved on one worker.")]
Tag = Annotated[str, Field(pattern=r"^[^\x00]*$", min_length=1, max_length=40)]
Tags = Annotated[list[Tag], Field(max_length=20)]
GroupName = Annotated[str, Field(pattern=r"^[^\x00]*$", max_length=80, description="Group of runs, as an experiment.")]
RunSlug = Annotated[Slug, Path(description="The run's public id, as in its address.")]
TrajectorySlug = Annotated[Slug, Path(description="The trajectory's public id, as in its address.")]
ImageHash = Annotated[
    str, Path(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the image's file, in hexadecimal digits.")
]
Limit = Annotated[int, Field(ge=1, le=100, description="Items on a page.")]
Cursor = Annotated[str | None, Field(max_length=500, description="`next_cursor` of the page before.")]


class StrictSchema(Schema):
    """Base of request bodies: unknown fields are errors."""

    model_config = ConfigDict(extra="forbid")


class TeamOut(Schema):
    """A team, by its address and its name."""

    slug: str
    name: str
