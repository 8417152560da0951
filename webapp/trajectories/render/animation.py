"""Animations of a trajectory, WebP or GIF: one frame per position, with the thought next to the board."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from io import BytesIO
from typing import Any

from PIL import Image

from webapp.core.formatting import plural
from webapp.trajectories.observation_images import NO_IMAGES, Images
from webapp.trajectories.positions import START, Position, position_at, positions
from webapp.trajectories.render.card import Caption, Judgement, draw_frame, get_judgement

MAX_FRAMES = 100
"""Longer animations take seconds to render."""
COLOURS = 128
LAST_MS, ACTION_MS = 3500, 550
MARK_MS, VERDICT_MS = 1100, 3000
"""Display time of a mistake, and of the mistake in the verdict."""
READING_MS, READING_LIMITS = 28, (1300, 4500)
"""Display time of a thought per character, and its limits."""

CONTENT_TYPES = {"webp": "image/webp", "gif": "image/gif"}


class AnimationTooLong(ValueError):
    """The trajectory has more than MAX_FRAMES positions. The message gives their number."""


def frame_positions(played: Mapping[str, Any]) -> list[Position]:
    """Return the positions of an animation, one for each frame. Raises AnimationTooLong."""
    line = positions(played)
    if len(line) > MAX_FRAMES:
        raise AnimationTooLong(
            f"This attempt has {len(line)} positions, and an animation has at most {MAX_FRAMES}. "
            "The JSON and text exports are complete."
        )
    return line


def animate(played: Mapping[str, Any], caption: Caption, kind: str, images: Images = NO_IMAGES) -> bytes:
    """Draw the animation as a file of a kind in CONTENT_TYPES. Raises AnimationTooLong before anything is drawn."""
    line = frame_positions(played)
    durations = [frame_duration(position) for position in line]
    durations[-1] = LAST_MS
    judgement = get_judgement(played)
    verdict = played.get("verdict")
    shown = line.index(position_at(line, verdict["turn"], verdict["action"])) if verdict else len(line)
    for number, position in enumerate(line[:-1]):
        if (position.turn, position.action) in judgement.marks:
            durations[number] = MARK_MS
    if shown < len(line):
        durations[shown] = max(durations[shown], VERDICT_MS)

    def frame(number: int) -> Image.Image:
        words = caption if number == len(line) - 1 else _so_far(caption, line[: number + 1])
        return draw_frame(line[number], words, judgement if number >= shown else Judgement(judgement.marks), images)

    return encode(frame, durations, kind)


def _so_far(caption: Caption, line: Sequence[Position]) -> Caption:
    """Return the caption of a frame before the last, which does not reveal how the attempt ends."""
    taken = sum(_executed(position) for position in line)
    return replace(caption, outcome=f"{plural(taken, 'action')} taken", success=None)


def _executed(position: Position) -> bool:
    if position.turn_data is None or position.action == START:
        return False
    return bool(position.turn_data["actions"][position.action]["status"] == "executed")


def encode(draw: Callable[[int], Image.Image], durations: list[int], kind: str) -> bytes:
    """Encode frames of one size as a file of a kind in CONTENT_TYPES. `durations` are in milliseconds.

    A frame may be drawn twice: first for the palette.
    """
    count = len(durations)
    palette = _palette([draw(0), draw(count // 2), draw(count - 1)])
    frames = [draw(number).quantize(palette=palette, dither=Image.Dither.NONE) for number in range(count)]
    file = BytesIO()
    options: dict[str, Any] = {"lossless": True, "quality": 40, "method": 2} if kind == "webp" else {"optimize": False}
    frames[0].save(file, kind.upper(), save_all=True, append_images=frames[1:], duration=durations, loop=0, **options)
    return file.getvalue()


def _palette(frames: list[Image.Image]) -> Image.Image:
    """Return a palette for all frames, so that the file stores only the changes between frames."""
    width, height = frames[0].size
    sheet = Image.new("RGB", (width, height * len(frames)))
    for number, frame in enumerate(frames):
        sheet.paste(frame, (0, height * number))
    return sheet.quantize(COLOURS, dither=Image.Dither.NONE)


def frame_duration(position: Position) -> int:
    """Return the milliseconds of a frame: time to read the thought or response at a turn's start, else short."""
    if position.action != START:
        return ACTION_MS
    minimum, maximum = READING_LIMITS
    turn = position.turn_data or {}
    text = turn.get("thought") or turn.get("response") or ""
    return max(minimum, min(maximum, READING_MS * len(text)))
