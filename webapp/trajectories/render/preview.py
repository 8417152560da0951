"""The picture of a position, and the keys of all drawings of a trajectory, for its pages and for reports."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from io import BytesIO
from typing import Any

from django.db.models import F, Func, IntegerField

from webapp.core.streaming import release_connection
from webapp.trajectories.mistakes.commentary import commentary
from webapp.trajectories.models import Trajectory, Turn
from webapp.trajectories.observation_images import Images, decoded_images
from webapp.trajectories.positions import START, Position, key_position, position_at, positions
from webapp.trajectories.render.board import board_svg
from webapp.trajectories.render.card import Caption, Judgement, draw_preview, get_judgement, judged_board
from webapp.trajectories.render.drawing_queue import DRAWINGS
from webapp.trajectories.serialize import player_data
from webapp.trajectories.sharing.public import outcome_text, training_point

STYLE = 7
"""Version of the rendering, part of the ETags: increase it when pictures look different."""


def caption(trajectory: Trajectory, played: Mapping[str, Any]) -> Caption:
    """Caption above the thought in pictures and animations. A verdict is shown below it, with its mistake."""
    outcome = outcome_text(trajectory)
    return Caption(
        title=trajectory.group.environment,
        outcome=outcome if played["verdict"] else commentary(played, outcome).removesuffix("."),
        success=trajectory.success,
        facts=training_point(trajectory),
        turns=len(played["turns"]),
        recorded=trajectory.run.recorded is not None,
    )


def drawing_key(trajectory: Trajectory, *what: object) -> str:
    """Return the ETag of a picture or animation of the trajectory in its present state, without quotation marks."""
    facts = (STYLE, trajectory.pk, trajectory.last_seq, trajectory.status, *what)
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:24]


def nearest_position(trajectory: Trajectory, turn: int, action: int) -> tuple[int, int]:
    """Return the position that position_at() would choose, with one query, so that each picture has only one ETag."""
    last = max(0, trajectory.turn_count - 1)
    if action < 0 and turn <= last:
        return turn, START
    number = Func(F("event__actions"), function="jsonb_array_length", output_field=IntegerField())
    actions = Turn.objects.filter(trajectory=trajectory, number=min(turn, last)).values_list(number, flat=True).first()
    latest = (actions or 0) - 1
    return (turn, min(action, latest)) if turn <= last else (last, latest)


def preview(trajectory: Trajectory, position: tuple[int, int] | None) -> bytes:
    """Draw a nearest_position(), or the most informative one with the verdict, as PNG. Raises DrawingBusy.

    Its key is drawing_key(trajectory, position). Select group and run with the trajectory. Releases the database
    connection.
    """

    def load() -> Callable[[], bytes]:
        data = player_data(trajectory)
        selected = position_at(positions(data), *(position or key_position(data)))
        words = caption(trajectory, data)
        judgement = get_judgement(data) if position is None else Judgement(get_judgement(data).marks)
        release_connection()
        images = decoded_images(trajectory.run, [selected])
        return lambda: _png(selected, words, judgement, images)

    return DRAWINGS.get(drawing_key(trajectory, position), load)


def board_picture(trajectory: Trajectory, position: tuple[int, int] | None) -> bytes:
    """Draw the board of a nearest_position(), or of the most informative one, as SVG."""
    data = player_data(trajectory)
    selected = position_at(positions(data), *(position or key_position(data)))
    return board_svg(*judged_board(selected, get_judgement(data))).encode()


def _png(position: Position, words: Caption, judgement: Judgement, images: Images) -> bytes:
    file = BytesIO()
    draw_preview(position, words, judgement, images).save(file, "PNG", optimize=True)
    return file.getvalue()
