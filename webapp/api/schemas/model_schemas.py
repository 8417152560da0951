"""Schemas of models: the catalogue, and what is installed on the workers."""

from __future__ import annotations

from typing import Annotated

from ninja import Path, Query, Schema
from pydantic import Field

ModelName = Annotated[
    str, Path(max_length=100, pattern=r"^[^\x00/]+$", description="Name of the model, as in policy.model.")
]
StoreWorker = Annotated[
    str,
    Query(
        max_length=200,
        pattern=r"^[^\x00]*$",
        description="A live worker, whose models folder is meant; empty: the first one.",
    ),
]
EstimatedPreset = Annotated[
    str,
    Query(max_length=100, pattern=r"^[^\x00]*$", description="A preset for which `fits` is estimated; empty: none."),
]


class ModelFitOut(Schema):
    """Fit of a run with a model on a worker."""

    worker: str
    verdict: str = Field(
        description="fits; lora: with adapters; gpu: a GPU is needed; large: more memory is needed; unknown."
    )
    needed: int | None = Field(description="Estimated memory in bytes.")
    available: int | None = Field(description="Memory of the worker's machine or largest GPU in bytes.")


class ModelStoreOut(Schema):
    """A models folder, which its workers share, and the state of a model in it."""

    workers: list[str] = Field(description="Live workers with this folder.")
    state: str = Field(description="absent, queued, downloading, installed, failed or deleting.")
    stage: str = Field(default="", description="Of a download: download, convert or check.")
    done_bytes: int = 0
    total_bytes: int = Field(default=0, description="0 if unknown.")
    bytes: int = Field(default=0, description="Size of the installed folder.")
    error: str = Field(default="", description="Why the last download or deletion failed.")


class ModelOut(Schema):
    """A model that runs can start from by its name."""

    name: str = Field(description="For policy.model.")
    label: str
    parameters: int = Field(description="0 if unknown.")
    licence: str
    licence_url: str
    gated: bool = Field(description="Whether its licence must be accepted on the Hub before the download.")
    thinking: bool | None = Field(description="Whether it thinks before it answers by itself; null if unknown.")
    learns: str = Field(description="What it can be expected to learn.")
    download_bytes: list[int] = Field(description="Size of the download from each source.")
    catalogue: bool = Field(description="Whether it is in the catalogue, so that it can be downloaded here.")
    installed: bool = Field(description="Whether a live worker has it.")
    stores: list[ModelStoreOut]
    fits: list[ModelFitOut] = Field(description="For each live worker, if a preset is given.")
