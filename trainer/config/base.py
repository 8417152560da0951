"""What the sections of RunConfig are made of: the model they derive from, and fields that explain themselves."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


def setting(default: Any, help: str, *, unit: str = "", source: str = "", **limits: Any) -> Any:
    """A field with its help, unit and source; `limits` are pydantic's (gt, ge, lt, le)."""
    return Field(default, description=help, json_schema_extra={"unit": unit, "source": source}, **limits)


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", validate_assignment=True)
