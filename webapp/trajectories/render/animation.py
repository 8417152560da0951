"""Animations of a trajectory, WebP or GIF: one frame per position, with the thought beside the board."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import Any

from PIL import Image

from webapp.trajectories.positions import START, Position, positions
from webapp.trajectories.render.card import Caption, draw_frame

MAX_FRAMES = 100
"""Longer animations take seconds to render."""
COLOURS = 128
LAST_MS, ACTION_MS = 3500, 550
READING_MS, READING_LIMITS = 28, (1300, 4500)
"""Display time of a thought per character, and its limits."""

CONTENT_TYPES = {"webp": "image/webp", "gif": "image/gif"}


class AnimationTooLong(ValueError):
    """The trajectory has more than MAX_FRAMES positions. The message gives their number."""


def animate(played: Mapping[str, Any], caption: Caption, kind: str) -> bytes:
    """The file, of a kind in CONTENT_TYPES. Raises AnimationTooLong before anything is drawn."""
    line = positions(played)
    if len(line) > MAX_FRAMES:
        raise AnimationTooLong(
            f"This trajectory has {len(line)} positions, and an animation has at most {MAX_FRAMES}. "
            "The JSON and text exports are complete."
        )
    palette = _palette([line[0], line[len(line) // 2], line[-1]], caption)
    plain = Image.Dither.NONE
    frames = [draw_frame(position, caption).quantize(palette=palette, dither=plain) for position in line]
    durations = [frame_duration(position) for position in line]
    durations[-1] = LAST_MS
    file = BytesIO()
    options: dict[str, Any] = {"lossless": True, "quality": 40, "method": 2} if kind == "webp" else {"optimize": False}
    frames[0].save(file, kind.upper(), save_all=True, append_images=frames[1:], duration=durations, loop=0, **options)
    return file.getvalue()


def _palette(line: list[Position], caption: Caption) -> Image.Image:
    """A palette for all frames, so that the file stores only the changes between frames."""
    frames = [draw_frame(position, caption) for position in line]
    width, height = frames[0].size
    sheet = Image.new("RGB", (width, height * len(frames)))
    for number, frame in enumerate(frames):
        sheet.paste(frame, (0, height * number))
    return sheet.quantize(COLOURS, dither=Image.Dither.NONE)


def frame_duration(position: Position) -> int:
    """Milliseconds of a frame: the reading time of the thought at a turn's start, short after an action."""
    if position.action != START:
        return ACTION_MS
    minimum, maximum = READING_LIMITS
    thought = (position.turn_data or {}).get("thought", "")
    return max(minimum, min(maximum, READING_MS * len(thought)))
