"""The arms of a bandit as SVG, in the shapes of static/js/board/pieces.js."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil, sqrt
from typing import Any

from webapp.trajectories.render import mistake_label
from webapp.trajectories.render.mistake_label import Mark
from webapp.trajectories.render.palette import INK, LIGHT
from webapp.trajectories.render.svg import SIDE, plate, square, write
from webapp.trajectories.render.text import fitted

Arm = Mapping[str, Any]
MAX_ARMS = 40
WIDTH, HEIGHT, GAP = 450, 520, 40
"""Size of an arm, and the space between arms; the margin of the picture is a little smaller."""


def draw_arms(arms: list[Arm], mark: Mark | None) -> str:
    """Draw the arms as a document: two in a row, more in a square."""
    shown = arms[:MAX_ARMS]
    columns = max(1, len(shown) if len(shown) <= 2 else ceil(sqrt(len(shown))))
    wide, high = columns * (WIDTH + GAP) - GAP, ceil(len(shown) / columns) * (HEIGHT + GAP) - GAP
    scale = min(1, 0.94 * SIDE / max(wide, high))
    left, top = (SIDE - scale * wide) / 2, (SIDE - scale * high) / 2
    parts = [f'<g transform="translate({left:g} {top:g}) scale({scale:g})">']
    for number, arm in enumerate(shown):
        row, column = divmod(number, columns)
        place = f"translate({column * (WIDTH + GAP)} {row * (HEIGHT + GAP)})"
        parts.append(f'<g transform="{place}">{"".join(_draw_arm(arm, mark))}</g>')
    return square([*parts, "</g>"], LIGHT["floor"])


def draw_lever(arm: Arm) -> str:
    """Draw the one-armed bandit, 60 by 44 units, with the lever down if the arm was pulled."""
    pulled = bool(arm.get("pulls"))
    down = 1 if pulled else -1
    return (
        f'<g class="lever{" pulled" if pulled else ""}"><path class="handle" d="M42 26h8v{14 * down}"/>'
        '<rect class="machine" x="8" y="8" width="34" height="30" rx="5"/>'
        '<rect class="window" x="14" y="14" width="22" height="10" rx="2"/>'
        f'<circle class="knob" cx="50" cy="{26 + 16 * down}" r="4.5"/></g>'
    )


def _draw_arm(arm: Arm, mark: Mark | None) -> Iterator[str]:
    box, middle, name, last = (0, 0, WIDTH, HEIGHT), WIDTH / 2, str(arm["name"]), arm.get("last")
    edge, line = ("accent", 9) if arm.get("pulls") else ("line-strong", 4)
    yield plate(box, LIGHT["panel"], 30, LIGHT[edge], line)
    yield f'<g transform="translate(82 44) scale(4.7)">{draw_lever(arm)}</g>'
    pulls = "1 pull" if arm.get("pulls") == 1 else f"{arm.get('pulls', 0)} pulls"
    paid = "not tried" if last is None else f"paid {last:.2f}"
    yield write((middle, 330), fitted(name, 52, 0.9 * WIDTH), 52, INK, anchor="middle", bold=0.012)
    for y, words in ((400, pulls), (465, paid)):
        yield write((middle, y), fitted(words, 40, 0.9 * WIDTH), 40, LIGHT["soft"], anchor="middle")
    if mark and name == mark["played"]:
        yield mistake_label.frame(box, mistake_label.get_mark_colour(mark), 11, 40)
        yield mistake_label.badge(WIDTH - 15, 50, mark, 70)
    elif mark and name in mark["better"][:1]:
        yield mistake_label.frame(box, LIGHT["good"], 8, 40)
        yield mistake_label.better_badge(WIDTH - 15, 50, 54)
