"""Line plots as SVG text: panels side by side with one legend."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

COLOURS = ("#2f5fd0", "#c2463a", "#2d8a55", "#b9770e", "#7a4fc0", "#1f8a9c", "#8a5a3c")
_INK, _SOFT, _LINE = "#1d2024", "#555b63", "#e2e2dc"
_LEFT, _TOP, _RIGHT, _BOTTOM = 46, 26, 12, 34
_HEAD, _ROW = 28, 17
_DASHES = ("", "7 3", "2 3", "9 3 2 3")

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class PlotSeries:
    """One line. `faint` lines and the `band` of (x, low, high) are drawn behind it in its colour.

    `intervals` are (x, low, high) at its points.
    """

    label: str
    points: Points
    colour: int = 0
    faint: Sequence[Points] = ()
    intervals: Sequence[tuple[float, float, float]] = ()
    band: Sequence[tuple[float, float, float]] = ()


@dataclass(frozen=True)
class Panel:
    """One pair of axes. `share`: a range of 0 … 1 as per cent, else the range of the data.

    `marks` are labelled dashed vertical lines: x, label, colour.
    """

    title: str
    series: Sequence[PlotSeries]
    share: bool = False
    marks: Sequence[tuple[float, str, int]] = field(default=())


def picture(
    title: str,
    panels: Sequence[Panel],
    legend: Sequence[tuple[str, int]],
    *,
    columns: int = 3,
    width: int | None = None,
) -> str:
    """All panels in rows, under a title and a legend of (label, colour), as a complete SVG document.

    A panel is 320 units wide by default, a single column of them 640, so that titles fit.
    """
    columns = max(1, min(columns, len(panels)))
    width = width or (640 if columns == 1 else 320)
    height = round(width * (0.5 if columns == 1 else 0.62))
    whole = columns * width
    rows = -(-len(panels) // columns)
    lines, head = _legend(legend, whole), _HEAD
    head += _ROW * len(lines)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {whole} {head + rows * height}"'
        ' font-family="system-ui,sans-serif" font-size="11"><rect width="100%" height="100%" fill="#fff"/>',
        f'<text x="{_LEFT}" y="19" font-size="13" font-weight="600" fill="{_INK}">{escape(title)}</text>',
    ]
    for row, entries in enumerate(lines):
        for x, label, colour in entries:
            y = _HEAD + _ROW * row + 8
            parts.append(
                f'<line x1="{x}" x2="{x + 22}" y1="{y - 4}" y2="{y - 4}" stroke="{_colour(colour)}" stroke-width="2"'
                f'{_dash(colour)}/><text x="{x + 27}" y="{y}" fill="{_INK}">{escape(label)}</text>'
            )
    for number, panel in enumerate(panels):
        left, top = (number % columns) * width, head + (number // columns) * height
        parts.append(f'<g transform="translate({left} {top})">{_panel(panel, width, height)}</g>')
    return "".join(parts) + "</svg>\n"


def _legend(legend: Sequence[tuple[str, int]], width: int) -> list[list[tuple[int, str, int]]]:
    """The legend's entries, broken into lines: (x, label, colour)."""
    lines: list[list[tuple[int, str, int]]] = []
    x = width
    for label, colour in legend:
        long = 27 + round(6.2 * len(label)) + 18
        if x + long > width:
            lines.append([])
            x = _LEFT
        lines[-1].append((x, label, colour))
        x += long
    return lines


def _colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def _dash(number: int) -> str:
    """Dash pattern, so that lines differ in more than their colour."""
    dash = _DASHES[number % len(_DASHES)]
    return f' stroke-dasharray="{dash}"' if dash else ""


@dataclass(frozen=True)
class _Scale:
    """Places of values in a panel: x from 0 to `last`, y from `low` to `high`."""

    width: int
    height: int
    last: float
    low: float
    high: float

    def x(self, at: float) -> float:
        return round(_LEFT + (self.width - _LEFT - _RIGHT) * at / self.last, 1)

    def y(self, value: float) -> float:
        share = (value - self.low) / ((self.high - self.low) or 1)
        return round(self.height - _BOTTOM - (self.height - _TOP - _BOTTOM) * share, 1)

    def line(self, points: Points) -> str:
        return " ".join(f"{self.x(a):g},{self.y(b):g}" for a, b in points)


def _panel(panel: Panel, width: int, height: int) -> str:
    everything = [point for series in panel.series for line in (series.points, *series.faint) for point in line]
    for series in panel.series:
        everything += [(x, y) for x, low, high in (*series.intervals, *series.band) for y in (low, high)]
    last = max([x for x, _ in everything] + [x for x, _, _ in panel.marks], default=1) or 1
    ticks = [0, 0.25, 0.5, 0.75, 1] if panel.share else _ticks([y for _, y in everything])
    scale = _Scale(width, height, last, ticks[0], ticks[-1])
    x, y = scale.x, scale.y
    parts = [f'<text x="{_LEFT}" y="16" font-weight="600" fill="{_INK}">{escape(panel.title)}</text>']
    for tick in ticks:
        label = f"{tick:.0%}" if panel.share else f"{tick:g}"
        parts.append(
            f'<line x1="{_LEFT}" x2="{width - _RIGHT}" y1="{y(tick)}" y2="{y(tick)}" stroke="{_LINE}"/>'
            f'<text x="{_LEFT - 5}" y="{y(tick) + 4}" text-anchor="end" fill="{_SOFT}">{label}</text>'
        )
    whole = [tick for tick in _ticks([0, last], 6) if tick <= last and tick == int(tick)]
    parts += [
        f'<text x="{x(tick)}" y="{height - 19}" text-anchor="middle" fill="{_SOFT}">{tick:g}</text>' for tick in whole
    ]
    middle = (_LEFT + width - _RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{height - 5}" text-anchor="middle" fill="{_SOFT}">iteration</text>')
    for at, label, colour in panel.marks:
        parts.append(
            f'<line x1="{x(at)}" x2="{x(at)}" y1="{_TOP}" y2="{height - _BOTTOM}" stroke="{_colour(colour)}"'
            f' stroke-dasharray="3 3" opacity=".7"><title>{escape(label)}</title></line>'
        )
    for series in panel.series:
        parts += _series(series, scale)
    return "".join(parts)


def _series(series: PlotSeries, scale: _Scale) -> list[str]:
    colour, x, y = _colour(series.colour), scale.x, scale.y
    stroke = f'fill="none" stroke="{colour}"'
    parts = []
    if series.band:
        edge = [(at, top) for at, _, top in series.band] + [(at, bottom) for at, bottom, _ in reversed(series.band)]
        parts.append(f'<polygon points="{scale.line(edge)}" fill="{colour}" opacity=".15"/>')
    parts += [f'<polyline points="{scale.line(faint)}" {stroke} opacity=".25"/>' for faint in series.faint]
    for at, bottom, top in series.intervals:
        parts.append(f'<line x1="{x(at)}" x2="{x(at)}" y1="{y(bottom)}" y2="{y(top)}" {stroke} opacity=".5"/>')
    parts.append(f'<polyline points="{scale.line(series.points)}" {stroke} stroke-width="2"{_dash(series.colour)}/>')
    if series.intervals or len(series.points) == 1:
        parts += [f'<circle cx="{x(a)}" cy="{y(b)}" r="3" fill="{colour}"/>' for a, b in series.points]
    return parts


def _ticks(values: Sequence[float], about: int = 4) -> list[float]:
    """About this many round numbers that enclose the values."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    if high - low < 1e-9:
        low, high = (low - 0.5, high + 0.5) if low else (0.0, 1.0)
    rough = (high - low) / about
    unit = 10 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]
