"""Images of observations in pictures and animations, in the place of a board that would be text alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from io import BytesIO

from PIL import Image

from trainer.journal.observation_images import ObservationImage
from webapp.trajectories.models import Trajectory
from webapp.trajectories.observation_images import DAMAGED, FORMATS, MIN_SHOWN_SIDE, read_image
from webapp.trajectories.positions import Position
from webapp.trajectories.render.palette import LIGHT

Images = Mapping[str, Image.Image]
"""Decoded images by their SHA-256."""
NO_IMAGES: Images = {}
DRAWN_BOARDS = {"grid", "arms", "page"}
"""Kinds of boards that show the state better than an image beside them would at this size."""
MAX_SIDE = 550
"""Side of the board of a preview in pixels: decoded images are kept no larger, as an animation may hold a hundred."""


def decoded_images(trajectory: Trajectory, shown: Iterable[Position]) -> Images:
    """Images of the positions that are to be drawn. Those that were never sent, or are damaged, are left out."""
    facts = {image.sha256: image for position in shown if (image := observed(position)) is not None}
    decoded = {sha256: _decode(read_image(trajectory.run, image), image) for sha256, image in facts.items()}
    return {sha256: image for sha256, image in decoded.items() if image is not None}


def observed(position: Position) -> ObservationImage | None:
    """The first image of the position's turn; None where the board is drawn in any case."""
    images = (position.turn_data or {}).get("images")
    if not images or position.board.get("kind") in DRAWN_BOARDS:
        return None
    return ObservationImage.model_validate(images[0])


def _decode(data: bytes | None, facts: ObservationImage) -> Image.Image | None:
    if data is None:
        return None
    try:
        with Image.open(BytesIO(data), formats=[FORMATS[facts.media_type]]) as image:
            image.thumbnail((MAX_SIDE, MAX_SIDE))
            return _opaque(image)
    except (*DAMAGED, Image.DecompressionBombError):
        return None


def _opaque(image: Image.Image) -> Image.Image:
    """In RGB; what is transparent shows the panel."""
    layer = image.convert("RGBA")
    ground = Image.new("RGBA", layer.size, LIGHT["panel"])
    return Image.alpha_composite(ground, layer).convert("RGB")


def draw_observation(image: Image.Image, side: int) -> Image.Image:
    """A square picture with the image as large as fits. Small ones, such as frames of games, keep sharp pixels."""
    square = Image.new("RGB", (side, side), LIGHT["panel"])
    factor = side / max(image.size)
    small = max(image.size) < MIN_SHOWN_SIDE
    if small and factor > 1:
        factor = int(factor)
    size = max(1, round(image.width * factor)), max(1, round(image.height * factor))
    resized = image.resize(size, Image.Resampling.NEAREST if small else Image.Resampling.LANCZOS)
    square.paste(resized, ((side - size[0]) // 2, (side - size[1]) // 2))
    return square
