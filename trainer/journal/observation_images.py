"""References to images that a policy observed. The images are files in the run's folder, named by their content."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

IMAGES_FOLDER = "images"
MAX_IMAGE_BYTES = 3 * 1024 * 1024
MAX_IMAGE_SIDE = 8192
MAX_IMAGE_PIXELS = 16 * 1024 * 1024
MAX_TURN_IMAGES = 8

MediaType = Literal["image/png", "image/jpeg", "image/webp"]
EXTENSIONS: dict[MediaType, str] = {"image/png": "png", "image/jpeg": "jpg", "image/webp": "webp"}
"""SVG is excluded: it may contain scripts, and has no pixels that a policy saw."""


class ObservationImage(BaseModel):
    """An image of an observation: what it takes to find it, and to leave room for it on a page."""

    model_config = ConfigDict(extra="forbid")

    sha256: str = Field(pattern=r"^[0-9a-f]{64}$", description="Of the file, in hexadecimal digits.")
    media_type: MediaType
    width: int = Field(ge=1, le=MAX_IMAGE_SIDE, description="Pixels.")
    height: int = Field(ge=1, le=MAX_IMAGE_SIDE, description="Pixels.")
    bytes: int = Field(ge=1, le=MAX_IMAGE_BYTES, description="Of the file.")


def image_path(sha256: str, media_type: MediaType) -> str:
    """Return the path of an image's file in the folder of its run."""
    return f"{IMAGES_FOLDER}/{sha256}.{EXTENSIONS[media_type]}"
