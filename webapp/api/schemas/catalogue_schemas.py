"""Response schemas of environments and presets."""

from __future__ import annotations

from typing import Annotated, Any

from ninja import Path, Query, Schema
from pydantic import Field

CatalogueName = Annotated[
    str, Path(max_length=100, pattern=r"^[^\x00/]+$", description="Name of the environment or preset, as listed.")
]
"""Name of an environment or a preset, in an address."""
VariantId = Annotated[
    str, Query(max_length=100, pattern=r"^[^\x00]*$", description="A variant of an adapter; empty for its default one.")
]
"""Id of a variant, in the query of an address."""


class EnvironmentOut(Schema):
    """An environment."""

    name: str
    title: str
    summary: str


class EnvironmentDetail(EnvironmentOut):
    """An environment with its rules and its settings."""

    spec: dict[str, Any] = Field(description="Rules, symbols, actions and budgets.")
    settings_schema: dict[str, Any] = Field(description="JSON Schema of its settings.")
    variants: dict[str, str] = Field(
        default={}, description="Of an adapter: variants by id, with a few words about each."
    )


class PresetOut(Schema):
    """A shipped preset."""

    name: str
    environment: str
    title: str
    algorithm: str
    size: str = Field(description="In words.")


class PresetDetail(PresetOut):
    """A shipped preset with its configuration."""

    config: dict[str, Any]
