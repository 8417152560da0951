"""Film of one initial state through training: the path walked at each iteration, as one picture or animation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO

from PIL import Image, ImageDraw

from webapp.core import formatting
from webapp.trajectories.render.animation import encode
from webapp.trajectories.render.board import draw_board
from webapp.trajectories.render.card import PREVIEW, draw_brand, draw_mark, rounded_mask
from webapp.trajectories.render.palette import INK, LIGHT
from webapp.trajectories.render.text import Draw, fitted, wrapped, write
from webapp.trajectories.render.walk import BoardStep

PICTURE_WIDTH, ANIMATION_WIDTH = 1200, 900
MAX_MOMENTS = 40
"""Maximum number of frames of an animation; of longer walks, evenly spaced moments are drawn."""
MOMENT_MS, START_MS, LAST_MS = 350, 1200, 3500
PREVIEW_FRAMES = 4
"""Number of frames in the preview of a link, which is a single row."""
CONTENT_TYPES = {"png": "image/png", "webp": "image/webp", "gif": "image/gif"}


@dataclass(frozen=True)
class FilmFrame:
    """One trajectory of the film. Without cells, `steps` are empty and its last answer is drawn."""

    iteration: int
    outcome: str
    success: bool | None
    reward: float | None
    answer: str
    first_success: bool
    steps: Sequence[BoardStep]

    @property
    def last(self) -> int:
        """Index of its last step."""
        return max(0, len(self.steps) - 1)


@dataclass(frozen=True)
class Film:
    """Title, a line of facts, and at least one frame."""

    title: str
    facts: str
    frames: Sequence[FilmFrame]

    @property
    def last(self) -> int:
        """Index of the last step of the longest walk."""
        return max(frame.last for frame in self.frames)


@dataclass(frozen=True)
class Layout:
    """Sizes of the picture in pixels."""

    width: int
    height: int
    columns: int
    tile: int
    unit: float
    """Pixels of this picture per pixel of a 1200 pixels wide one."""

    def corner(self, number: int) -> tuple[int, int]:
        """Return the upper left corner of a frame's board."""
        row, column = divmod(number, self.columns)
        step = self.tile + self.at(GAP)
        return self.at(MARGIN) + column * step, self.at(HEAD) + row * (self.tile + self.at(CAPTION))

    def at(self, size: float) -> int:
        return round(size * self.unit)


MARGIN, GAP, HEAD, CAPTION = 40, 16, 150, 104
MAX_TILE = 268


def layout(count: int, width: int) -> Layout:
    """Lay out one row of up to four frames, or two rows; the height follows from the width."""
    unit = width / PICTURE_WIDTH
    columns = count if count <= 4 else (count + 1) // 2
    room = PICTURE_WIDTH - 2 * MARGIN
    tile = round(min(MAX_TILE, (room - GAP * (columns - 1)) / columns) * unit)
    rows = -(-count // columns)
    height = round(HEAD * unit) + rows * (tile + round(CAPTION * unit)) + round(10 * unit)
    return Layout(width, height, columns, tile, unit)


def picture_size(count: int) -> tuple[int, int]:
    """Return width and height in pixels of a picture with that number of frames."""
    sizes = layout(count, PICTURE_WIDTH)
    return sizes.width, sizes.height


def draw_film(film: Film, kind: str) -> bytes:
    """Draw a file of a kind in CONTENT_TYPES: a picture of the paths, or an animation of all walks in step."""
    if kind == "png":
        file = BytesIO()
        _draw(film, layout(len(film.frames), PICTURE_WIDTH), film.last).save(file, "PNG", optimize=True)
        return file.getvalue()
    sizes = layout(len(film.frames), ANIMATION_WIDTH)
    times = moments(film.last)
    durations = [START_MS] + [MOMENT_MS] * (len(times) - 1)
    durations[-1] = LAST_MS
    return encode(lambda number: _draw(film, sizes, times[number]), durations, kind)


def draw_film_preview(film: Film) -> bytes:
    """Return the PNG of a film of up to PREVIEW_FRAMES frames in the size of a link's preview."""
    drawn = _draw(film, layout(len(film.frames), PICTURE_WIDTH), film.last)
    image = Image.new("RGB", PREVIEW, LIGHT["bg"])
    image.paste(drawn, ((PREVIEW[0] - drawn.width) // 2, max(0, (PREVIEW[1] - drawn.height) // 2)))
    file = BytesIO()
    image.save(file, "PNG", optimize=True)
    return file.getvalue()


def moments(last: int, limit: int = MAX_MOMENTS) -> list[int]:
    """Return the step indices of an animation's frames, evenly spaced if there are more than `limit` (at least 2)."""
    if last < limit:
        return list(range(last + 1))
    return [(number * last + (limit - 1) // 2) // (limit - 1) for number in range(limit)]


def _draw(film: Film, sizes: Layout, index: int) -> Image.Image:
    image = Image.new("RGB", (sizes.width, sizes.height), LIGHT["bg"])
    draw, at = ImageDraw.Draw(image), sizes.at
    left, right = at(MARGIN), sizes.width - at(MARGIN)
    draw_brand(draw, left + at(12), at(44), at(11))
    write(draw, (left + at(32), at(51)), "Echoscope", at(20), INK, bold=0.02)
    write(draw, (left, at(94)), fitted(film.title, at(38), right - left), at(38), INK, bold=0.018)
    write(draw, (left, at(128)), fitted(film.facts, at(22), right - left), at(22), LIGHT["soft"])
    mask = rounded_mask(sizes.tile, max(2, sizes.tile // 24))
    for number, frame in enumerate(film.frames):
        x, y = sizes.corner(number)
        tile = _board(frame.steps[: index + 1], sizes.tile) if frame.steps else _card(frame, sizes)
        image.paste(tile, (x, y), mask)
        ended = index >= frame.last
        succeeded = frame.first_success and ended
        if succeeded or not frame.steps:
            edge = LIGHT["good"] if succeeded else LIGHT["line-strong"]
            line = at(5) if succeeded else max(1, at(1))
            box = (x - line // 2, y - line // 2, x + sizes.tile - 1 + line // 2, y + sizes.tile - 1 + line // 2)
            draw.rounded_rectangle(box, sizes.tile // 24 + line // 2, None, edge, line)
        _caption(draw, frame, sizes, (x, y + sizes.tile), ended=ended)
    return image


def _caption(draw: Draw, frame: FilmFrame, sizes: Layout, corner: tuple[int, int], *, ended: bool) -> None:
    """Draw the iteration, and once its walk has ended the outcome and the reward."""
    (x, y), at = corner, sizes.at
    size = at(18)
    write(draw, (x, y + at(28)), fitted(f"Iteration {frame.iteration}", size, sizes.tile), size, INK, bold=0.02)
    if not ended:
        return
    fill = LIGHT["soft"] if frame.success is None else LIGHT["good"] if frame.success else LIGHT["bad"]
    start = x
    if frame.success is not None:
        draw_mark(draw, x + at(8), y + at(48), at(7), fill, good=frame.success)
        start += at(24)
    outcome = "first success" if frame.first_success else frame.outcome
    write(draw, (start, y + at(54)), fitted(outcome, size, x + sizes.tile - start), size, fill, bold=0.012)
    if frame.reward is not None:
        write(draw, (x, y + at(79)), f"reward {formatting.signed(frame.reward)}", size, LIGHT["soft"])


def _card(frame: FilmFrame, sizes: Layout) -> Image.Image:
    """Draw the last answer on a card, for environments without cells."""
    image = Image.new("RGB", (sizes.tile, sizes.tile), LIGHT["panel"])
    draw, size, margin = ImageDraw.Draw(image), sizes.at(18), sizes.at(14)
    write(draw, (margin, margin + size), "Last answer", sizes.at(16), LIGHT["soft"])
    room = sizes.tile - 2 * margin
    high = size * 1.4
    lines = wrapped(frame.answer or "No answer.", size, room, max(1, int((room - 2 * size) / high)))
    for number, line in enumerate(lines):
        write(draw, (margin, margin + 2.4 * size + number * high), line, size, INK)
    return image


def _board(steps: Sequence[BoardStep], size: int) -> Image.Image:
    """Draw the board of the last of these steps with their path."""
    return draw_board(steps[-1].board, size, path=steps)
