"""Metric curves: buckets computed by the database, last and best values, sections of the charts.

A bucket keeps its lowest, highest and last point, so that no spike is lost however long a run is;
static/js/curves/series.js buckets live points in the same way.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, cast

from django.db import connection

from trainer.metrics import registry
from trainer.metrics.spec import SECTIONS, Better, MetricSpec, Section
from trainer.metrics.trap_signals import LIMIT, SIGNALS

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
class CurveCut:
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
        min(ARRAY[-value, iteration]), max(tokens), max(seconds)
    FROM runs_metricpoint WHERE run_id = ANY(%s) AND (%s::text[] IS NULL OR name = ANY(%s)) GROUP BY run_id, name
"""
_NAMES = """
    WITH RECURSIVE found AS (
        SELECT run, (SELECT min(name) FROM runs_metricpoint WHERE run_id = run) AS name FROM unnest(%s::bigint[]) AS run
        UNION ALL
        SELECT run, (SELECT min(next.name) FROM runs_metricpoint AS next WHERE run_id = run AND next.name > found.name)
        FROM found WHERE name IS NOT NULL
    ) SELECT DISTINCT name FROM found WHERE name IS NOT NULL ORDER BY name
"""
"""Loose index scan over the names: its time does not depend on the number of iterations."""
_ENDS = """
    SELECT min(first.iteration), max(last.iteration), max(last.tokens), max(last.seconds)
    FROM unnest(%s::bigint[]) AS run, unnest(%s::text[]) AS metric,
        LATERAL (SELECT iteration FROM runs_metricpoint
                 WHERE run_id = run AND name = metric ORDER BY iteration LIMIT 1) AS first,
        LATERAL (SELECT iteration, tokens, seconds FROM runs_metricpoint
                 WHERE run_id = run AND name = metric ORDER BY iteration DESC LIMIT 1) AS last
"""
"""Two entries of the index for each run and metric."""


def choose_stride(last: int, buckets: int = BUCKETS) -> int:
    """Return the smallest power of two that divides the iterations 0 to `last` into at most `buckets` buckets."""
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
) -> CurveCut:
    """Return the curves between `low` and `high` on the axis, with about `width` points each. Two queries.

    With fewer iterations than that, every point is returned.
    """
    if not runs or not names:
        return CurveCut(0, {})
    where = [list(runs), list(names), low, high]
    (row,) = _rows(_EXTENT.format(x=axis), where)
    first, last, left, right = row
    if first is None:
        return CurveCut(0, {})
    if last - first < width:
        return CurveCut(0, raw(runs, names, axis=axis, low=low, high=high))
    buckets = max(1, width // 3)
    stride: float = choose_stride(last - first, buckets)
    if axis != "iteration":
        stride = max((right - left) / buckets, 1e-9)
    return CurveCut(stride, _bucketed(where, axis, stride))


def raw(
    runs: Sequence[int],
    names: Sequence[str],
    *,
    axis: Axis = "iteration",
    low: float = -math.inf,
    high: float = math.inf,
) -> Curves:
    """Return every point between `low` and `high`."""
    curves: Curves = defaultdict(list)
    for run, name, iteration, x, value in _rows(_RAW.format(x=axis), [list(runs), list(names), low, high]):
        curves[run, name].append(Point(iteration, float(x), value))
    return dict(curves)


def by_iteration(run: int, names: Sequence[str], last: int) -> dict[str, list[list[float]]]:
    """Return {name: [[iteration, value], …]} in at most BUCKETS buckets, for the live page. One query."""
    stride, everything = choose_stride(last), [[run], list(names), -math.inf, math.inf]
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

    def best(self, better: Better) -> tuple[float, int] | None:
        """Return (value, iteration) of the first best value; None for metrics without a better direction."""
        match better:
            case "up":
                return self.highest, self.highest_at
            case "down":
                return self.lowest, self.lowest_at
        return None


def summaries(runs: Sequence[int], names: Sequence[str] | None = None) -> dict[tuple[int, str], Summary]:
    """Return the summaries by (run, metric); all metrics without `names`. One query."""
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
        )
        for run, name, count, last, low, high, tokens, seconds in rows
    }


def load_metric_names(runs: Sequence[int]) -> list[str]:
    """Return the names of the metrics of these runs, in alphabetical order. One query."""
    return [name for (name,) in _rows(_NAMES, [list(runs)])]


@dataclass(frozen=True)
class ChartSpec:
    """A metric and its chart. `partners` are drawn in the same chart: the ends of its interval, its limit."""

    spec: MetricSpec
    partners: dict[str, str] = field(default_factory=dict)
    summary: Summary | None = None

    @property
    def unit_text(self) -> str:
        """The unit, for the title; empty if it is written next to every value."""
        return "" if self.spec.unit in ("share", "bytes", "%") else self.spec.unit

    @property
    def last_text(self) -> str:
        return "" if self.summary is None else self.spec.reading(self.summary.last)

    @property
    def best(self) -> tuple[str, int] | None:
        """Best value as text, and its iteration; None for a constant metric."""
        best = None if self.constant else self.summary and self.summary.best(self.spec.better)
        return (self.spec.reading(best[0]), best[1]) if best else None

    @property
    def range_text(self) -> str:
        """Range of the values as text."""
        if self.summary is None:
            return ""
        low, high = (self.spec.reading(end) for end in (self.summary.lowest, self.summary.highest))
        return f"constant at {low}" if self.constant else low if low == high else f"{low} to {high}"

    @property
    def constant(self) -> bool:
        """True if several values were measured and all are equal."""
        summary = self.summary
        return summary is not None and summary.count > 1 and summary.lowest == summary.highest


@dataclass(frozen=True)
class ChartSection:
    """A section of the curves page."""

    key: str
    title: str
    charts: list[ChartSpec]


DIGITS = "0123456789"
_NUMBERS = re.compile(r"([0-9]{1,18})")
UNDESCRIBED = "Recorded by the trainer under this name; Echoscope has no description of it."
TITLES = {
    "echo trap": "Echo Trap watch",
    "mismatch": "Trainer–sampler mismatch",
    "watched": "Watched views",
    OTHER: "Other",
}


def described(name: str) -> MetricSpec:
    """The metric's spec, or a generic one for a name that the registry does not describe."""
    try:
        return registry.get_spec(name)
    except KeyError:
        return MetricSpec(name, name, cast(Section, OTHER), UNDESCRIBED)


def _natural(name: str) -> list[tuple[int, str]]:
    """Sort key in which layer_2 comes before layer_10."""
    return [(int(part), "") if part[0] in DIGITS else (0, part) for part in _NUMBERS.split(name) if part]


def sections(names: Iterable[str], summaries: Mapping[str, Summary] | None = None) -> list[ChartSection]:
    """The charts of these metrics by section.

    The sections of the registry come first, in its order. Then there is one for each prefix, the part before the first
    slash, that several other metrics share, and one for the rest.
    """
    available, summaries = set(names), summaries or {}
    order = {name: at for at, name in enumerate(registry.METRICS)}
    by_section: dict[str, list[ChartSpec]] = {key: [] for key in SECTIONS}
    by_prefix: dict[str, list[ChartSpec]] = defaultdict(list)
    for name in sorted(available, key=lambda name: (order.get(name, len(order)), _natural(name))):
        if _is_partner(name, available):
            continue
        spec = described(name)
        chart = ChartSpec(spec, _partners(name, available), summaries.get(name))
        if spec.section != OTHER:
            by_section[spec.section].append(chart)
        else:
            prefix, slash, _ = name.partition("/")
            by_prefix[prefix if slash else OTHER].append(chart)
    rest: list[ChartSpec] = by_prefix.pop(OTHER, [])
    for prefix, charts in by_prefix.items():
        if prefix in by_section or len(charts) > 1:
            by_section.setdefault(prefix, []).extend(charts)
        else:
            rest += charts
    titles = {key: key.capitalize() for key in SECTIONS} | TITLES
    return [
        ChartSection(key, titles.get(key, key), charts)
        for key, charts in (by_section | {OTHER: rest}).items()
        if charts
    ]


OVERVIEW = ("reward/mean", "entropy/mean", "reward/in_group_std")
"""Charts at the top of the page, after the evaluation's success."""
USUAL = ("reward", "accuracy", "eval_loss", "loss", "train_loss", "grad_norm")
"""Last parts of the names under which other trainers log what their users look at first."""


def split_overview(sections: Sequence[ChartSection], suite: str) -> tuple[list[ChartSpec], list[ChartSection]]:
    """Return the charts at the top of the page, and the sections without these charts.

    The first is the success in the `suite`, or in the first suite if the run was not evaluated in that one. Runs of
    other trainers that have none of these charts begin with the usual ones.
    """
    charts = {chart.spec.name: chart for section in sections for chart in section.charts}
    successes = [name for name in charts if name.startswith("eval/") and name.endswith("/success")]
    own = f"eval/{suite}/success"
    first = own if own in charts else next(iter(successes), "success/rate")
    names = [name for name in (first, *OVERVIEW) if name in charts] or _usual(charts)
    rest = [
        ChartSection(section.key, section.title, [chart for chart in section.charts if chart.spec.name not in names])
        for section in sections
    ]
    return [charts[name] for name in names], [section for section in rest if section.charts]


def _usual(names: Iterable[str]) -> list[str]:
    """Up to four of the usual metrics, in their order."""
    by_word: dict[str, str] = {}
    for name in names:
        by_word.setdefault(name.rpartition("/")[2], name)
    return [by_word[word] for word in USUAL if word in by_word][: 1 + len(OVERVIEW)]


MANY_METRICS = 200
"""Runs with more of them begin with few open sections."""


def opened(sections: Sequence[ChartSection], *, several: bool = False) -> set[str]:
    """Keys of the sections that are open at first: all, or only the main ones of several runs or many metrics."""
    keys = [section.key for section in sections]
    if not several and sum(len(section.charts) for section in sections) <= MANY_METRICS:
        return set(keys)
    return {"reward", "evaluation"} & set(keys) or set(keys[:1])


def catalog(sections: Sequence[ChartSection]) -> list[dict[str, Any]]:
    """Sections with their metrics for the scripts, in the order of the page.

    Defaults are left out (static/js/curves/catalog.js adds them): a run may have thousands of metrics.
    """
    return [
        {
            "key": section.key,
            "title": section.title,
            "metrics": {chart.spec.name: _described_for_scripts(chart) for chart in section.charts},
        }
        for section in sections
    ]


def _described_for_scripts(chart: ChartSpec) -> dict[str, Any]:
    spec = chart.spec
    usual = {"title": spec.name, "unit": "", "meaning": UNDESCRIBED, "better": "none", "partners": {}, "bad": ""}
    values = {
        "title": spec.title,
        "unit": spec.unit,
        "meaning": spec.meaning,
        "better": spec.better,
        "partners": chart.partners,
        "bad": BAD_SIDE.get(spec.name, ""),
    }
    return {name: value for name, value in values.items() if value != usual[name]}


def extent(runs: Sequence[int], overview: Sequence[ChartSpec], sections: Sequence[ChartSection]) -> dict[str, float]:
    """The last iteration, and the most tokens and seconds: where the axes of all charts end. One query.

    `first` is where iterations begin: at 0, or below with a warm-up on demonstrations. Read from the charts at the top
    and the first one of each section; the scripts extend the axes if others reach further.
    """
    names = [chart.spec.name for chart in (*overview, *(section.charts[0] for section in sections))]
    ((first, iteration, tokens, seconds),) = _rows(_ENDS, [list(runs), names])
    return {
        "first": min(first or 0, 0),
        "iteration": 1 if iteration is None else iteration,
        "tokens": 1 if tokens is None else tokens,
        "seconds": 1.0 if seconds is None else round(seconds, 3),
    }


BAD_SIDE = {sign.name: sign.bad for sign in SIGNALS}
_LIMITS = {sign.limit: sign.name for sign in SIGNALS}
_BESIDE_SUCCESS = {
    "low": "success_low",
    "high": "success_high",
    "best": "success_best_play",
    "random": "success_random_play",
}
"""Metrics drawn with a suite's success: the ends of its interval, and the success of the best and of random play."""


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
