"""Cards with board, thought, actions and outcome: previews of share links and frames of animations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any

from PIL import Image, ImageDraw

from webapp.core import formatting
from webapp.core.formatting import call_text
from webapp.trajectories.observation_images import NO_IMAGES, Images, observed
from webapp.trajectories.positions import Position, positions
from webapp.trajectories.render.board import draw_board, draw_observation
from webapp.trajectories.render.mistake_label import COLOURS, Mark
from webapp.trajectories.render.palette import INK, LIGHT
from webapp.trajectories.render.text import Draw, fitted, width, wrapped, write
from webapp.trajectories.render.view import Board
from webapp.trajectories.turn_text import response_text

PREVIEW = (1200, 630)
"""Size of the preview of a link in social networks and chats."""
FRAME = (720, 400)
"""Size of a frame of an animation."""
FINE = 3
"""Oversampling factor: Pillow draws shapes without antialiasing."""


@dataclass(frozen=True)
class Caption:
    """Caption above the thought. `success` is None while the trajectory is being played.

    `recorded`: True for another trainer's run, whose responses do not have our format.
    """

    title: str
    outcome: str
    success: bool | None
    facts: str
    turns: int
    recorded: bool = False


@dataclass(frozen=True)
class Judgement:
    """Visible mistakes: their marks by turn and action, and the verdict; both empty until they may be revealed.

    A mark on a web page has the page before the decision as its `before`.
    """

    marks: Mapping[tuple[int, int], Mark] = field(default_factory=dict)
    verdict: str = ""


NOTHING = Judgement()


def get_judgement(played: Mapping[str, Any]) -> Judgement:
    """Return the judgement in the data of a trajectory, which may have neither marks nor a verdict."""
    marks = {(mark["turn"], mark["action"]): mark for mark in played.get("marks") or ()}
    if marks:
        line = positions(played)
        for previous, position in pairwise(line):
            key = (position.turn, position.action)
            if key in marks and previous.board.get("kind") == position.board.get("kind") == "page":
                marks[key] = {**marks[key], "before": previous.board}
    return Judgement(marks, (played.get("verdict") or {}).get("sentence", ""))


def judged_board(position: Position, judgement: Judgement) -> tuple[Board, Mark | None]:
    """Return the board to draw for a position, and its mistake."""
    mark = judgement.marks.get((position.turn, position.action))
    return (mark.get("before", position.board) if mark else position.board), mark


def draw_preview(
    position: Position, caption: Caption, judgement: Judgement = NOTHING, images: Images = NO_IMAGES
) -> Image.Image:
    """Draw the preview picture of a link, 1200 by 630 pixels."""
    return _card(position, caption, judgement, images, PREVIEW, 40)


def draw_frame(
    position: Position, caption: Caption, judgement: Judgement = NOTHING, images: Images = NO_IMAGES
) -> Image.Image:
    """Draw a frame of an animation, 720 by 400 pixels."""
    return _card(position, caption, judgement, images, FRAME, 20)


def _card(
    position: Position, caption: Caption, judgement: Judgement, images: Images, size: tuple[int, int], margin: int
) -> Image.Image:
    wide, high = size
    image = Image.new("RGB", size, LIGHT["bg"])
    side = high - 2 * margin
    shown, mark = judged_board(position, judgement)
    seen = None if mark else observed(position)
    if seen is not None and seen.sha256 in images:
        board = draw_observation(images[seen.sha256], side)
    else:
        board = draw_board(shown, side, mark)
    image.paste(board, (margin, margin), rounded_mask(side, side // 40))
    draw = ImageDraw.Draw(image)
    if position.board.get("kind") == "page":
        draw.rounded_rectangle((margin, margin, margin + side, margin + side), side // 40, None, LIGHT["line-strong"])
    left, right = margin * 2 + side, wide - margin
    point = side // 21
    top = _head(draw, caption, left, right, margin, point)
    top = _verdict(draw, judgement.verdict, left, right, top, point)
    missing = "" if caption.recorded else "No action in the answer."
    foot = _actions(draw, position, judgement.marks, (left, right, high - margin), point, missing)
    _thought(draw, position, caption, (left, top, right, foot), point)
    return image


@lru_cache(maxsize=4)
def rounded_mask(side: int, radius: int) -> Image.Image:
    """Return the mask of a square with rounded corners, in pixels."""
    mask = Image.new("L", (side * FINE, side * FINE))
    ImageDraw.Draw(mask).rounded_rectangle((0, 0, side * FINE - 1, side * FINE - 1), radius * FINE, 255)
    return mask.reduce(FINE)


def _head(draw: Draw, caption: Caption, left: int, right: int, top: int, point: int) -> float:
    """Draw site, title and outcome; returns the y coordinate below them."""
    small = round(point * 0.86)
    draw_brand(draw, left + point * 0.55, top + point * 0.5, point * 0.5)
    write(draw, (left + point * 1.45, top + point * 0.82), "Echoscope", small, INK, bold=0.02)
    write(draw, (right, top + point * 0.82), caption.facts, small, LIGHT["soft"], anchor="rs")
    large = round(point * 1.75)
    y = top + point * 1.3 + large
    write(draw, (left, y), fitted(caption.title, large, right - left), large, INK, bold=0.018)
    y += point * 1.75
    good = caption.success
    fill = LIGHT["soft"] if good is None else LIGHT["good"] if good else LIGHT["bad"]
    x = float(left)
    if good is not None:
        draw_mark(draw, x + point * 0.45, y - point * 0.38, point * 0.42, fill, good=good)
        x += point * 1.35
    outcome = wrapped(caption.outcome, point, right - x, 2)
    for number, line in enumerate(outcome):
        write(draw, (x, y + number * point * 1.35), line, point, fill, bold=0.012)
    return y + (len(outcome) - 1) * point * 1.35 + point * 0.9


def _verdict(draw: Draw, verdict: str, left: int, right: int, top: float, point: int) -> float:
    """Draw the verdict in a red frame, if there is one; returns the y coordinate below it."""
    if not verdict:
        return top
    inner, high = point * 0.7, point * 1.4
    lines = wrapped(verdict, point, right - left - 2 * inner, 4)
    bottom = top + len(lines) * high + inner * 1.1
    draw.rounded_rectangle(
        (left, top, right, bottom), point * 0.4, LIGHT["bad-wash"], LIGHT["bad"], max(1, point // 14)
    )
    for number, line in enumerate(lines):
        write(draw, (left + inner, top + inner * 0.5 + (number + 0.74) * high), line, point, INK, bold=0.012)
    return bottom + point * 0.5


def draw_brand(draw: Draw, x: float, y: float, radius: float) -> None:
    """Draw the site's logo, centred at the point."""
    draw.ellipse((x - radius * 0.42, y - radius * 0.42, x + radius * 0.42, y + radius * 0.42), LIGHT["accent"])
    for share in (0.85, 1.35):
        reach = radius * share
        draw.arc((x - reach, y - reach, x + reach, y + reach), -60, 60, LIGHT["accent"], max(1, round(radius * 0.22)))


def draw_mark(draw: Draw, x: float, y: float, radius: float, fill: str, *, good: bool) -> None:
    """Draw a tick or a cross, so that colour is not the only signal."""
    line = max(2, round(radius * 0.4))
    if good:
        draw.line(
            [(x - radius, y), (x - radius * 0.3, y + radius * 0.75), (x + radius, y - radius * 0.8)],
            fill,
            line,
            joint="curve",
        )
    else:
        draw.line([(x - radius * 0.8, y - radius * 0.8), (x + radius * 0.8, y + radius * 0.8)], fill, line)
        draw.line([(x - radius * 0.8, y + radius * 0.8), (x + radius * 0.8, y - radius * 0.8)], fill, line)


def _thought(draw: Draw, position: Position, caption: Caption, box: tuple[int, float, int, float], point: int) -> None:
    left, top, right, bottom = box
    turn = position.turn_data
    small = round(point * 0.86)
    top += point * 0.35
    if turn is None:
        write(draw, (left, top + small), "No turns yet", small, LIGHT["soft"])
        return
    where = f"Turn {position.turn + 1} of {caption.turns}"
    write(draw, (left, top + small), where, small, LIGHT["soft"])
    if turn["terms"]:  # else no reward was recorded
        reward = f"reward {formatting.signed(turn['reward'])}"
        write(draw, (right, top + small), reward, small, LIGHT["soft"], anchor="rs")
    top += small * 1.75
    text, fill = (_recorded_text(turn), INK) if caption.recorded else _thought_text(turn)
    indent = point * 0.85
    high = point * 1.42
    lines = wrapped(text, point, right - left - indent, max(1, int((bottom - top - point * 0.3) / high)))
    draw.rectangle((left, top, left + max(2, point // 7), top + len(lines) * high), LIGHT["accent"])
    for number, line in enumerate(lines):
        write(draw, (left + indent, top + (number + 0.74) * high), line, point, fill)


def _thought_text(turn: Any) -> tuple[str, str]:
    if turn["thought"]:
        return turn["thought"], INK
    if turn.get("format_valid") is False and turn.get("response"):
        return turn["response"], INK
    return "No thought.", LIGHT["soft"]


def _recorded_text(turn: Any) -> str:
    calls = (call_text(action["call"]) for action in turn["actions"] if action.get("call"))
    return "\n".join(part for part in (turn["thought"], response_text(turn), *calls) if part)


def _actions(
    draw: Draw,
    position: Position,
    marks: Mapping[tuple[int, int], Mark],
    box: tuple[int, int, int],
    point: int,
    missing: str,
) -> float:
    """Draw the turn's actions as chips on one line at the bottom; returns its y coordinate.

    Actions up to the position have the glyphs of their mistakes. `box`: left, right and lower edge. `missing`: text to
    show without actions.
    """
    left, right, bottom = box
    turn = position.turn_data
    if turn is None or not (turn["actions"] or missing):
        return bottom
    size, high = round(point * 0.9), point * 1.75
    top = bottom - high
    if not turn["actions"]:
        write(draw, (left, bottom - high * 0.32), missing, size, LIGHT["soft"])
        return top - point * 0.4
    x = float(left)
    start = max(0, position.action - 3)
    if start:
        x += write(draw, (x, bottom - high * 0.32), "… ", size, LIGHT["soft"])
    for number, record in enumerate(turn["actions"][start:], start=start):
        name = fitted(str(record.get("name") or record["text"]), size, (right - left) * 0.6)
        mark = marks.get((position.turn, number)) if number <= position.action else None
        glyph = f" {mark['glyph']}" if mark else ""
        wide = width(name + glyph, size) + point * 1.2
        if x + wide > right:
            write(draw, (x, bottom - high * 0.32), "…", size, LIGHT["soft"])
            break
        here, done = number == position.action, number <= position.action
        wrong = LIGHT[COLOURS[mark["kind"]]] if mark else ""
        ink, edge, fill = _chip_colours(record["status"], here=here, done=done)
        line = max(1, point // 7) if here else max(1, point // 14)
        draw.rounded_rectangle((x, top, x + wide, bottom - 1), point * 0.35, fill, wrong or edge, line)
        after = x + point * 0.6 + write(draw, (x + point * 0.6, bottom - high * 0.34), name, size, ink)
        if glyph:
            write(draw, (after, bottom - high * 0.34), glyph, size, wrong, bold=0.03)
        if record["status"] in ("illegal", "ignored"):
            draw.line(
                (x + point * 0.5, bottom - high * 0.52, x + wide - point * 0.5, bottom - high * 0.52),
                ink,
                max(1, point // 14),
            )
        x += wide + point * 0.35
    return top - point * 0.4


def _chip_colours(status: str, *, here: bool, done: bool) -> tuple[str, str, str]:
    """Return the colours of an action's text, edge and area. `here`: the position's last; `done`: it was played."""
    if status == "illegal":
        return LIGHT["bad"], LIGHT["accent" if here else "bad"], LIGHT["panel"]
    edge = LIGHT["accent" if here else "line-strong" if done else "line"]
    if status == "ignored" or not done:
        return LIGHT["soft"], edge, LIGHT["panel"]
    return INK, edge, LIGHT["floor"]
