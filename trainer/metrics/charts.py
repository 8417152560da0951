"""Still charts as SVG: axes, lines, bands, whiskers and sparks, for pages, studies, model cards and lists.

A page stretches a plot (`plot`) to the available space and labels the axes outside it; a file is a complete document
(`document`). Both draw a series with the same elements, in the current colour.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from xml.sax.saxutils import escape

from trainer.metrics.spec import Unit, bytes_text

COLOURS = ("#2f5fd0", "#c2463a", "#2d8a55", "#b9770e", "#7a4fc0", "#1f8a9c", "#8a5a3c", "#c44f96")
"""Colours of the lines in a document; pages have other colours for both themes."""
PLOT = (1000, 300)
"""Size of the box of a plot on a page, which is stretched to the available space."""
MAX_DOTS = 40
"""Lines with more points are drawn without dots."""
_INK, _SOFT, _LINE = "#1d2024", "#555b63", "#e2e2dc"
_LEFT, _TOP, _RIGHT, _BOTTOM = 46, 26, 12, 34
_HEAD, _ROW = 28, 17
_DASHES = ("", "7 3", "2 3", "9 3 2 3")
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Ticks of an axis for the whole range of shares."""
WARM_UP, FEW = 0.25, 10
"""Largest share of an axis for iterations below 0, once there are FEW above; as static/js/curves/iteration_axis.js."""
WHISKER, _MARGIN = 190, 14
"""Width of an interval's drawing, and the margin at its ends for half of a label."""

Points = Sequence[tuple[float, float]]
Ranges = Sequence[tuple[float, float, float]]
"""(x, low, high)"""


@dataclass(frozen=True)
class Series:
    """A line. `faint` lines and the `band` are drawn behind it, `intervals` at its points."""

    label: str
    points: Points
    colour: int = 0
    faint: Sequence[Points] = ()
    intervals: Ranges = ()
    band: Ranges = ()

    @property
    def extent(self) -> list[tuple[float, float]]:
        """All points that the axes have to enclose."""
        ends = [(x, end) for x, *pair in (*self.intervals, *self.band) for end in pair]
        return [*self.points, *(point for line in self.faint for point in line), *ends]


@dataclass(frozen=True)
class Band:
    """Part of a whole over time: its share of each column, 0 to 1."""

    label: str
    shares: Sequence[float]


@dataclass(frozen=True)
class Axes:
    """Both axes of a plot in a box: x from `first` to `last`, y from the first to the last tick.

    A long warm-up, on iterations below 0, is compressed to a quarter of the width, so that the training can be seen.
    """

    width: float
    height: float
    first: float
    last: float
    ticks: Sequence[float]

    @property
    def compression(self) -> float:
        """Factor of iterations below 0; 1 if all iterations are equally wide."""
        if self.first >= 0 or self.last <= 0:
            return 1.0
        return min(1.0, max(self.last, FEW) / -self.first * WARM_UP / (1 - WARM_UP))

    def _place(self, at: float) -> float:
        return min(at, 0.0) * self.compression + max(at, 0.0)

    def x(self, at: float) -> float:
        """Return the distance from the left end of the box."""
        first, last = self._place(self.first), self._place(self.last)
        return round(self.width * (self._place(at) - first) / ((last - first) or 1), 1)

    def value(self, share: float) -> float:
        """Return the value at a share of the width, the inverse of `x`."""
        first, last = self._place(self.first), self._place(self.last)
        place = first + share * (last - first)
        return place / self.compression if place < 0 else place

    def y(self, value: float) -> float:
        """Return the distance from the top of the box."""
        low, high = self.ticks[0], self.ticks[-1]
        return round(self.height * (1 - (value - low) / ((high - low) or 1)), 1)

    def line(self, points: Iterable[tuple[float, float]]) -> str:
        """Format the value of the attribute `points`."""
        return " ".join(f"{self.x(x):g},{self.y(y):g}" for x, y in points if math.isfinite(y))


def fit_axes(
    series: Iterable[Series], unit: Unit = "", *, box: tuple[float, float] = PLOT, also: Sequence[float] = ()
) -> Axes:
    """Create axes that enclose the series, and the x positions `also`; y ends at round numbers of the unit."""
    points = [point for line in series for point in line.extent if math.isfinite(point[1])]
    xs = [*also, *(x for x, _ in points)] or [0.0, 1.0]
    divisor, _ = _unit_of_ticks(unit, max((abs(y) for _, y in points), default=0.0))
    ticks = [divisor * tick for tick in round_ticks([y / divisor for _, y in points])]
    if unit == "share" and points and not any(y for _, y in points):
        ticks = list(SHARES)  # zero throughout has no scale of its own
    return Axes(*box, min(xs), max(xs), ticks)


def round_ticks(values: Sequence[float], about: int = 4) -> list[float]:
    """Return round numbers that enclose the values, with about this many intervals."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    scale = max(abs(low), abs(high))
    room = next(
        (size for size in (high - low, scale) if size > max(1e-11, 1e-12 * scale)), 1.0
    )  # avoids rounding errors
    unit = 10.0 ** math.floor(math.log10(room / about))
    step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor * about >= room * 0.999)
    first = math.floor(low / step + 1e-9)
    last = max(first + 1, math.ceil(high / step - 1e-9))
    return [round(number * step, 12) for number in range(first, last + 1)]


def tick_labels(ticks: Sequence[float], unit: Unit = "") -> list[str]:
    """Format ticks with the decimals that their distance needs, and with the unit if it is short."""
    divisor, sign = _unit_of_ticks(unit, max(map(abs, ticks)))
    distance = (ticks[1] - ticks[0]) / divisor if len(ticks) > 1 else 1.0
    decimals = next((digits for digits in range(6) if math.isclose(round(distance, digits), distance)), None)
    texts = (f"{tick / divisor:.4g}" if decimals is None else f"{tick / divisor:,.{decimals}f}" for tick in ticks)
    zero = abs(distance) * 1e-6
    labels = ["0" if abs(tick / divisor) < zero else text for tick, text in zip(ticks, texts, strict=True)]
    return [label.replace("-", "−") + sign for label in labels]


def _unit_of_ticks(unit: Unit, largest: float) -> tuple[float, str]:
    """Return the divisor of values in tick labels, and the text after the number, as in MetricSpec.text."""
    if unit == "share":
        return 0.01, "%"
    if unit == "bytes":
        divisor = 1024.0 ** min(4, max(0, int(math.log(max(largest, 1.0), 1024) + 1e-9)))
        return divisor, f" {bytes_text(divisor).split()[1]}"
    return 1.0, "%" if unit == "%" else ""


def drawn(series: Series, axes: Axes, dash: str = "") -> str:
    """Draw a series as SVG elements in the current colour."""
    x, y = axes.x, axes.y
    parts = []
    if series.band:
        edge = [(at, high) for at, _, high in series.band] + [(at, low) for at, low, _ in reversed(series.band)]
        parts.append(f'<polygon points="{axes.line(edge)}" fill="currentcolor" stroke="none" opacity=".15"/>')
    parts += [f'<polyline points="{axes.line(faint)}" opacity=".25"{dash}/>' for faint in series.faint]
    if series.intervals:
        bars = "".join(f"M{x(at):g} {y(low):g}V{y(high):g}" for at, low, high in series.intervals)
        parts.append(f'<path d="{bars}" stroke-width="1" opacity=".5"/>')
    parts.append(f'<polyline points="{axes.line(series.points)}" stroke-width="2"{dash}/>')
    if len(series.points) <= MAX_DOTS or series.intervals:
        dots = "".join(f"M{x(at):g} {y(value):g}h0" for at, value in series.points if math.isfinite(value))
        parts.append(f'<path d="{dots}" stroke-width="6" stroke-linecap="round"/>')
    return "".join(parts)


def warm_up(axes: Axes) -> str:
    """Draw the part of the box before iteration 0 as a wash; empty if there is none."""
    if not axes.first < 0 < axes.last:
        return ""
    box = f'width="{axes.x(0):g}" height="{axes.height:g}"'
    return f'<rect class="warm-up" {box} fill="currentcolor" stroke="none" opacity=".1"/>'


def plot(series: Iterable[Series], axes: Axes) -> str:
    """Draw the contents of a page's <svg> of the size PLOT: the grid, and a group `line-N` for each series."""
    grid = "".join(f'<path d="M0 {axes.y(tick):g}H{axes.width:g}"/>' for tick in axes.ticks)
    lines = "".join(f'<g class="line-{line.colour}">{drawn(line, axes)}</g>' for line in series)
    return f'{warm_up(axes)}<g class="grid">{grid}</g>{lines}'


def stream(bands: Sequence[Band], box: tuple[float, float] = PLOT, colours: Sequence[str] = ()) -> str:
    """Draw a stack of bands from the bottom up, each of class `line-N`; the rest of the box is free.

    Args:
        colours: colours of the bands, for a document; otherwise the page's style colours the classes.
    """
    width, height = box
    columns = len(bands[0].shares) if bands else 0
    axes = Axes(width, height, 0, max(columns, 1), (0.0, 1.0))
    floor, parts = [0.0] * columns, []
    for number, band in enumerate(bands):
        top = [min(1.0, low + share) for low, share in zip(floor, band.shares, strict=True)]
        upper = [(x, share) for at, share in enumerate(top) for x in (at, at + 1)]
        lower = [(x, share) for at, share in enumerate(floor) for x in (at, at + 1)]
        fill = f' fill="{colours[number % len(colours)]}"' if colours else ""
        points = axes.line([*upper, *reversed(lower)])
        parts.append(
            f'<polygon class="line-{number + 1}"{fill} points="{points}"><title>{escape(band.label)}</title></polygon>'
        )
        floor = top
    return "".join(parts)


def stream_document(title: str, bands: Sequence[Band], ends: tuple[str, str], note: str = "") -> str:
    """Draw a stack of bands as a complete SVG document, with its legend.

    Args:
        ends: labels of the first and the last column.
        note: a line under the title.
    """
    width, height, top = 960, 300, 64
    bottom = top + height
    texts = [
        f'<text x="20" y="28" font-size="17" font-weight="600" fill="{_INK}">{escape(title)}</text>',
        f'<text x="20" y="50" fill="{_SOFT}">{escape(note)}</text>',
        f'<text x="20" y="{bottom + 18}" fill="{_SOFT}">{escape(ends[0])}</text>',
        f'<text x="{width + 20}" y="{bottom + 18}" text-anchor="end" fill="{_SOFT}">{escape(ends[1])}</text>',
    ]
    for number, band in enumerate(bands):
        y = bottom + 42 + 20 * number
        texts.append(
            f'<rect x="20" y="{y - 10}" width="12" height="12" rx="2" fill="{_colour(number)}"/>'
            f'<text x="40" y="{y}" fill="{_INK}">{escape(band.label)}</text>'
        )
    whole = bottom + 40 + 20 * len(bands)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width + 40} {whole}" '
        'font-family="system-ui,sans-serif" font-size="13"><rect width="100%" height="100%" fill="#fff"/>'
        f'<g transform="translate(20 {top})"><rect width="{width}" height="{height}" fill="#eef0f3"/>'
        f"{stream(bands, (width, height), COLOURS)}</g>{''.join(texts)}</svg>\n"
    )


def spark(
    values: Sequence[float],
    box: tuple[float, float] = (100, 30),
    *,
    span: tuple[float, float] | None = None,
    slots: int = 0,
) -> str:
    """Format the attribute `points` of a small curve; empty for fewer than two values.

    Args:
        span: lower and upper end of the axis; by default the smallest and largest value.
        slots: number of values that would fill the box; fewer values end at its right side.
    """
    if len(values) < 2:
        return ""
    low, high = span or (min(values), max(values))
    if high <= low:
        low, high = low - 0.5, high + 0.5
    axes = Axes(box[0], box[1] - 4, len(values) - max(slots, len(values)), len(values) - 1, (low, high))
    return " ".join(f"{axes.x(at):g},{axes.y(value) + 2:g}" for at, value in enumerate(values))


def whisker(low: float, value: float, high: float, others: Sequence[float] = (), *, final: bool = False) -> str:
    """Draw the contents of an <svg> of WHISKER × 16: an interval of shares with a dot, and diamonds for others."""
    left, right = share_place(low), share_place(high)
    grid = "".join(f'<path class="grid" d="M{share_place(tick)} 0V16"/>' for tick in SHARES)
    diamonds = "".join(f'<path class="pass" d="M{share_place(share)} 4l4 4l-4 4l-4 -4z"/>' for share in others)
    line = f'<path class="line" d="M{left} 8H{right}M{left} 5V11M{right} 5V11"/>'
    dot = f'<circle class="dot{" final" if final else ""}" cx="{share_place(value)}" cy="8" r="4"/>'
    return grid + line + diamonds + dot


def whisker_axis() -> str:
    """Draw the contents of an <svg> of WHISKER × 12: the labels above whiskers."""
    places = zip(SHARES, ("first", "", "", "", "last"), tick_labels(SHARES, "share"), strict=True)
    return "".join(f'<text x="{share_place(at)}" y="10" class="{name}">{label}</text>' for at, name, label in places)


def share_place(share: float) -> str:
    """Return the x coordinate of a share among whiskers."""
    return f"{_MARGIN + (WHISKER - 2 * _MARGIN) * share:.1f}"


@dataclass(frozen=True)
class Panel:
    """A pair of axes in a document; shares have the whole range. `with_zero` makes the y axis include 0."""

    title: str
    series: Sequence[Series]
    unit: Unit = ""
    with_zero: bool = False


def document(title: str, panels: Sequence[Panel], *, columns: int = 3, width: int | None = None) -> str:
    """Draw all panels in rows as a complete SVG document, with a title and a legend of their lines.

    A panel is 320 units wide by default, a single column of them 640, so that titles fit.
    """
    columns = max(1, min(columns, len(panels)))
    width = width or (640 if columns == 1 else 320)
    height = round(width * (0.5 if columns == 1 else 0.62))
    whole, rows = columns * width, -(-len(panels) // columns)
    entries, head = _legend({series.label: series.colour for panel in panels for series in panel.series}, whole)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {whole} {head + rows * height}"'
        ' font-family="system-ui,sans-serif" font-size="11"><rect width="100%" height="100%" fill="#fff"/>',
        f'<text x="{_LEFT}" y="19" font-size="13" font-weight="600" fill="{_INK}">{escape(title)}</text>{entries}',
    ]
    for number, panel in enumerate(panels):
        left, top = (number % columns) * width, head + (number // columns) * height
        parts.append(f'<g transform="translate({left} {top})">{_panel(panel, width, height)}</g>')
    return "".join(parts) + "</svg>\n"


def _legend(legend: Mapping[str, int], width: int) -> tuple[str, int]:
    """Draw the entries of the legend, broken into lines; returns them, and the height of title and legend."""
    parts: list[str] = []
    x, y = width, _HEAD + 8 - _ROW
    for label, colour in legend.items():
        long = 45 + round(6.2 * len(label))
        if x + long > width:
            x, y = _LEFT, y + _ROW
        parts.append(
            f'<path d="M{x} {y - 4}h22" stroke="{_colour(colour)}" stroke-width="2"{_dash(colour)}/>'
            f'<text x="{x + 27}" y="{y}" fill="{_INK}">{escape(label)}</text>'
        )
        x += long
    return "".join(parts), y - 8 + _ROW


def _colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def _dash(number: int) -> str:
    """Return a dash pattern, so that lines do not differ only in colour."""
    dash = _DASHES[number % len(_DASHES)]
    return f' stroke-dasharray="{dash}"' if dash else ""


def _iteration_ticks(axes: Axes) -> list[float]:
    if axes.compression == 1:
        return round_ticks([axes.first, axes.last], 6)
    return [axes.first, *round_ticks([0, axes.last], 5)]


def _panel(panel: Panel, width: int, height: int) -> str:
    """Draw title, labels, grid and lines."""
    wide, high = width - _LEFT - _RIGHT, height - _TOP - _BOTTOM
    zero = [Series("", [(0, 0)])] if panel.with_zero else []
    axes = fit_axes([*panel.series, *zero], panel.unit, box=(wide, high), also=[0])
    if panel.unit == "share":
        axes = replace(axes, ticks=SHARES)
    parts = [f'<text y="-10" font-weight="600" fill="{_INK}">{escape(panel.title)}</text>{warm_up(axes)}']
    parts.append(f'<g fill="{_SOFT}">')
    for tick, label in zip(axes.ticks, tick_labels(axes.ticks, panel.unit), strict=True):
        parts.append(
            f'<path d="M0 {axes.y(tick):g}h{wide}" stroke="{_LINE}"/>'
            f'<text x="-5" y="{axes.y(tick) + 4:g}" text-anchor="end">{label}</text>'
        )
    parts += [
        f'<text x="{axes.x(tick):g}" y="{high + 15}" text-anchor="middle">{tick:g}</text>'
        for tick in _iteration_ticks(axes)
        if tick == int(tick) and axes.first <= tick <= axes.last
    ]
    parts.append(f'<text x="{wide / 2:g}" y="{high + 29}" text-anchor="middle">iteration</text></g>')
    for series in panel.series:
        inside = drawn(series, axes, _dash(series.colour))
        parts.append(f'<g fill="none" color="{_colour(series.colour)}" stroke="currentcolor">{inside}</g>')
    return f'<g transform="translate({_LEFT} {_TOP})">{"".join(parts)}</g>'
