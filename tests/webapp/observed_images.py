"""Real images in the formats that observations have, and turns that refer to them."""

from __future__ import annotations

import hashlib
from io import BytesIO

from PIL import Image

from trainer.journal.observation_images import MediaType, ObservationImage
from webapp.trajectories.models import Trajectory
from webapp.trajectories.observation_images import FORMATS, check_image, store_image


def image_file(width: int = 64, height: int = 48, media_type: MediaType = "image/png", colour: str = "teal") -> bytes:
    """The file of an image of one colour, with a white square."""
    image = Image.new("RGB", (width, height), colour)
    image.paste("white", (width // 4, height // 4, width // 2, height // 2))
    buffer = BytesIO()
    image.save(buffer, FORMATS[media_type])
    return buffer.getvalue()


def sha256_of(data: bytes) -> str:
    """The hash that names a file."""
    return hashlib.sha256(data).hexdigest()


def observe(trajectory: Trajectory, data: bytes | None = None) -> ObservationImage:
    """Let the first turn of a played trajectory refer to an image that the site has."""
    data = data or image_file()
    image = check_image(data, sha256_of(data), "image/png")
    store_image(trajectory.run, image, data)
    turn = trajectory.turns.order_by("number")[0]
    turn.event["images"] = [image.model_dump()]
    turn.save(update_fields=["event"])
    return image
