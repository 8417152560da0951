"""Metric curves: buckets computed by the database, last and best values, sections of the charts.

A bucket keeps its lowest, highest and last point, so that no spike is lost however long a run is;
static/js/curves/series.js buckets live points in the same way.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, cast

from django.db import connection

from trainer.metrics import registry
from trainer.metrics.spec import SECTIONS, Better, MetricSpec, Section
from trainer.metrics.trap_signals import LIMIT, SIGNALS
from webapp.runs.models import Run

Axis = Literal["iteration", "tokens", "seconds"]
AXES: tuple[Axis, ...] = ("iteration", "tokens", "seconds")
BUCKETS = 200
"""Maximum number of buckets on the live page, with three points each."""
OTHER = "other"


class Point(NamedTuple):
    """One value of a metric, and its position on the requested axis."""

    iteration: int
    x: float
    value: float


Curves = dict[tuple[int, str], list[Point]]
"""(primary key of the run, metric) → points in order of iteration."""


@dataclass(frozen=True)
class Cut:
    """Curves and the width of their buckets on the axis; 0 = every point."""

    stride: float
    curves: Curves


_RAW = """
    SELECT run_id, name, iteration, {x}, value FROM runs_metricpoint
    WHERE run_id = ANY(%s) AND name = ANY(%s) AND {x} >= %s AND {x} <= %s ORDER BY run_id, name, iteration
"""
_EXTENT = """
    SELECT min(iteration), max(iteration), min({x}), max({x}) FROM runs_metricpoint
    WHERE run_id = ANY(%s) AND name = ANY(%s) AND {x} >= %s AND {x} <= %s
"""
_BUCKETS = """
    SELECT run_id, name, min(ARRAY[value, i, x]), min(ARRAY[-value, i, x]), max(ARRAY[i, value, x])
    FROM (
        SELECT run_id, name, iteration::float8 AS i, value, {x}::float8 AS x FROM runs_metricpoint
        WHERE run_id = ANY(%s) AND name = ANY(%s) AND {x} >= %s AND {x} <= %s
    ) AS points
    GROUP BY run_id, name, floor(x / %s)
"""
"""Arrays compare element by element: the minimum of (value, iteration, …) is the first point of the lowest value."""
_SUMMARY = """
    SELECT run_id, name, count(*), max(ARRAY[iteration, value]), min(ARRAY[value, iteration]),
        min(ARRAY[-value, iteration]), max(tokens), max(seconds), min(iteration)
    FROM runs_metricpoint WHERE run_id = ANY(%s) AND (%s::text[] IS NULL OR name = ANY(%s)) GROUP BY run_id, name
"""
_NAMES = """
    WITH RECURSIVE found AS (
        (SELECT run_id, name FROM runs_metricpoint WHERE run_id = %s ORDER BY name LIMIT 1)
        UNION ALL
        SELECT next.run_id, next.name FROM found, LATERAL (
            SELECT run_id, name FROM runs_metricpoint
            WHERE run_id = found.run_id AND name > found.name ORDER BY name LIMIT 1
        ) AS next
    ) SELECT name FROM found
"""
"""Loose index scan over the names: its time does not depend on the number of iterations."""


def stride_of(last: int, buckets: int = BUCKETS) -> int:
    """The smallest power of two that divides the iterations 0 to `last` into at most `buckets` buckets."""
    stride = 1
    while last // stride >= buckets:
        stride *= 2
    return stride


def cut(
    runs: Sequence[int],
    names: Sequence[str],
    *,
    axis: Axis = "iteration",
    low: float = -math.inf,
    high: float = math.inf,
    width: int = 3 * BUCKETS,
) -> Cut:
    """The curves between `low` and `high` on the axis, with about `width` points each. Two queries.

    With fewer iterations than that, every point is returned.
    """
    if not runs or not names:
        return Cut(0, {})
    where = [list(runs), list(names), low, high]
    (row,) = _rows(_EXTENT.format(x=axis), where)
    first, last, left, right = row
    if first is None:
        return Cut(0, {})
    if last - first < width:
        return Cut(0, raw(runs, names, axis=axis, low=low, high=high))
    buckets = max(1, width // 3)
    stride: float = stride_of(last - first, buckets)
    if axis != "iteration":
        stride = max((right - left) / buckets, 1e-9)
    return Cut(stride, _bucketed(where, axis, stride))


def raw(
    runs: Sequence[int],
    names: Sequence[str],
    *,
    axis: Axis = "iteration",
    low: float = -math.inf,
    high: float = math.inf,
) -> Curves:
    """Every point between `low` and `high`."""
    curves: Curves = defaultdict(list)
    for run, name, iteration, x, value in _rows(_RAW.format(x=axis), [list(runs), list(names), low, high]):
        curves[run, name].append(Point(iteration, float(x), value))
    return dict(curves)


def by_iteration(run: int, names: Sequence[str], last: int) -> dict[str, list[list[float]]]:
    """{name: [[iteration, value], …]} in at most BUCKETS buckets, for the live page. One query."""
    stride, everything = stride_of(last), [[run], list(names), -math.inf, math.inf]
    points = raw([run], names) if stride == 1 else _bucketed(everything, "iteration", stride)
    return {name: [[point.iteration, point.value] for point in points.get((run, name), [])] for name in names}


def _bucketed(where: list[Any], axis: Axis, stride: float) -> Curves:
    curves: dict[tuple[int, str], set[Point]] = defaultdict(set)
    for run, name, lowest, highest, latest in _rows(_BUCKETS.format(x=axis), [*where, stride]):
        curves[run, name] |= {
            Point(int(lowest[1]), lowest[2], lowest[0]),
            Point(int(highest[1]), highest[2], -highest[0]),
            Point(int(latest[0]), latest[2], latest[1]),
        }
    return {key: sorted(points) for key, points in curves.items()}


def _rows(statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


# -- summaries and chart sections -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Summary:
    """Last, lowest and highest value of a metric."""

    count: int
    last: float
    last_at: int
    lowest: float
    lowest_at: int
    highest: float
    highest_at: int
    tokens: int
    seconds: float
    first_at: int = 0

    def best(self, better: Better) -> tuple[float, int] | None:
        """(value, iteration) of the best value, the first of equals; None for metrics without a better direction."""
        match better:
            case "up":
                return self.highest, self.highest_at
            case "down":
                return self.lowest, self.lowest_at
        return None


def summaries(runs: Sequence[int], names: Sequence[str] | None = None) -> dict[tuple[int, str], Summary]:
    """(run, metric) → summary; all metrics without `names`. One query."""
    selected = None if names is None else list(names)
    rows = _rows(_SUMMARY, [list(runs), selected, selected])
    return {
        (run, name): Summary(
            count,
            last[1],
            int(last[0]),
            low[0],
            int(low[1]),
            -high[0],
            int(high[1]),
            int(tokens),
            float(seconds),
            int(first),
        )
        for run, name, count, last, low, high, tokens, seconds, first in rows
    }


def names_of(run: Run) -> list[str]:
    """Names of the metrics of a run. One query."""
    return [name for (name,) in _rows(_NAMES, [run.pk])]


@dataclass(frozen=True)
class ChartSpec:
    """A metric and its chart. `partners` are drawn with it: the ends of its interval, its limit."""

    spec: MetricSpec
    partners: dict[str, str] = field(default_factory=dict)
    summary: Summary | None = None
    suite: str = ""
    """The evaluation suite it was measured in."""

    @property
    def unit_words(self) -> str:
        """The unit, for the title; empty where every value has it."""
        return "" if self.spec.unit in ("share", "bytes", "%") else self.spec.unit

    @property
    def last_words(self) -> str:
        return "" if self.summary is None else self.spec.reading(self.summary.last)

    @property
    def best(self) -> tuple[str, int] | None:
        """Best value as text, and its iteration; None for a constant metric."""
        best = None if self.constant else self.summary and self.summary.best(self.spec.better)
        return (self.spec.reading(best[0]), best[1]) if best else None

    @property
    def range_words(self) -> str:
        """Range of the values as text."""
        if self.summary is None:
            return ""
        low, high = (self.spec.reading(end) for end in (self.summary.lowest, self.summary.highest))
        return f"constant at {low}" if self.constant else low if low == high else f"{low} to {high}"

    @property
    def constant(self) -> bool:
        """Whether several values were measured and all are equal."""
        summary = self.summary
        return summary is not None and summary.count > 1 and summary.lowest == summary.highest


@dataclass(frozen=True)
class ChartSection:
    """A section of the curves page."""

    key: str
    title: str
    charts: list[ChartSpec]

    @property
    def varying(self) -> list[ChartSpec]:
        return [chart for chart in self.charts if not chart.constant]

    @property
    def flat(self) -> list[ChartSpec]:
        """Charts of constant metrics, which the page folds."""
        return [chart for chart in self.charts if chart.constant]


TITLES = {"echo trap": "Echo Trap watch", "mismatch": "Trainer–sampler mismatch", OTHER: "Other"}


def described(name: str) -> MetricSpec:
    """The metric's spec, or a generic one for metrics of other versions' journals."""
    try:
        return registry.get_spec(name)
    except KeyError:
        return MetricSpec(name, name, cast(Section, OTHER), "A metric of another version of Echoscope.")


def merged(summaries: Mapping[tuple[int, str], Summary]) -> dict[str, Summary]:
    """Metric → summary over all runs."""
    by_name: dict[str, list[Summary]] = defaultdict(list)
    for (_, name), summary in summaries.items():
        by_name[name].append(summary)
    result = {}
    for name, found in by_name.items():
        last, low, high = (
            max(found, key=lambda one: one.last_at),
            min(found, key=lambda one: one.lowest),
            max(found, key=lambda one: one.highest),
        )
        result[name] = Summary(
            sum(one.count for one in found),
            last.last,
            last.last_at,
            low.lowest,
            low.lowest_at,
            high.highest,
            high.highest_at,
            max(one.tokens for one in found),
            max(one.seconds for one in found),
            min(one.first_at for one in found),
        )
    return result


def sections(names: Iterable[str], summaries: Mapping[str, Summary] | None = None) -> list[ChartSection]:
    """The charts of these metrics by section, in the order of the registry."""
    available, summaries = set(names), summaries or {}
    order = {name: at for at, name in enumerate(registry.METRICS)}
    by_section: dict[str, list[ChartSpec]] = defaultdict(list)
    for name in sorted(available, key=lambda name: (order.get(name, len(order)), name)):
        if _is_partner(name, available):
            continue
        spec = described(name)
        suite = name.split("/")[1] if name.startswith("eval/") else ""
        chart = ChartSpec(spec, _partners(name, available), summaries.get(name), suite)
        by_section[spec.section].append(chart)
    return [
        ChartSection(key, TITLES.get(key, key.capitalize()), by_section[key])
        for key in (*SECTIONS, OTHER)
        if key in by_section
    ]


OVERVIEW = ("reward/mean", "entropy/mean", "reward/in_group_std")
"""Charts at the top of the page, after the evaluation's success."""


def split_overview(sections: Sequence[ChartSection], suite: str) -> tuple[list[ChartSpec], list[ChartSection]]:
    """The charts at the top of the page, and the sections without them.

    The first is the success in the `suite`, or in the first suite if the run was not evaluated in that one.
    """
    charts = {chart.spec.name: chart for section in sections for chart in section.charts}
    successes = [name for name in charts if name.startswith("eval/") and name.endswith("/success")]
    own = f"eval/{suite}/success"
    first = own if own in charts else next(iter(successes), "success/rate")
    names = [name for name in (first, *OVERVIEW) if name in charts]
    rest = [
        ChartSection(section.key, section.title, [chart for chart in section.charts if chart.spec.name not in names])
        for section in sections
    ]
    return [charts[name] for name in names], [section for section in rest if section.charts]


def catalog(sections: Sequence[ChartSection]) -> dict[str, dict[str, Any]]:
    """Description of every metric for the scripts, in the order of the page."""
    return {
        chart.spec.name: {
            "title": chart.spec.title,
            "unit": chart.spec.unit,
            "section": section.title,
            "meaning": chart.spec.meaning,
            "partners": chart.partners,
        }
        | ({"bad": BAD_SIDE[chart.spec.name]} if chart.spec.name in BAD_SIDE else {})
        for section in sections
        for chart in section.charts
    }


def extent(summaries: Iterable[Summary]) -> dict[str, float]:
    """The last iteration, and the most tokens and seconds: where the axes of all charts end.

    `first` is where iterations begin: at 0, or below with a warm-up on demonstrations.
    """
    found = list(summaries)
    return {
        "first": min((summary.first_at for summary in found if summary.first_at < 0), default=0),
        "iteration": max((summary.last_at for summary in found), default=1),
        "tokens": max((summary.tokens for summary in found), default=1),
        "seconds": round(max((summary.seconds for summary in found), default=1.0), 3),
    }


BAD_SIDE = {sign.name: sign.bad for sign in SIGNALS}
_LIMITS = {sign.limit: sign.name for sign in SIGNALS}
_BESIDE_SUCCESS = {
    "low": "success_low",
    "high": "success_high",
    "best": "success_best_play",
    "random": "success_random_play",
}
"""Metrics drawn with a suite's success: the ends of its interval, and the lines between which policies lie."""


def _is_partner(name: str, available: set[str]) -> bool:
    if name in _LIMITS:
        return _LIMITS[name] in available
    head, _, tail = name.rpartition("/")
    return name.startswith("eval/") and tail in _BESIDE_SUCCESS.values() and f"{head}/success" in available


def _partners(name: str, available: set[str]) -> dict[str, str]:
    candidates = {"limit": f"{name}{LIMIT}"}
    if name.startswith("eval/") and name.endswith("/success"):
        suite = name.removesuffix("success")
        candidates = {role: f"{suite}{partner}" for role, partner in _BESIDE_SUCCESS.items()}
    return {role: partner for role, partner in candidates.items() if partner in available}
