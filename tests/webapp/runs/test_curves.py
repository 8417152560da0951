"""Curves: downsampling by the database keeps extremes and last values on any axis, in few queries."""

from __future__ import annotations

import csv
import gzip
import io
import math
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as how
from hypothesis import strategies as st
from pytest_django import DjangoAssertNumQueries

from tests.webapp.fragments import contains
from tests.webapp.javascript import evaluate
from tests.webapp.page_requests import Visitors, play, who
from webapp.runs import curves
from webapp.runs.curves import Point
from webapp.runs.models import MetricPoint, Run

__all__ = ["who"]

WAVE = "reward/mean"


def fill(run: Run, values: list[float], name: str = WAVE) -> None:
    MetricPoint.objects.bulk_create(
        MetricPoint(run=run, name=name, iteration=at, value=value, tokens=100 * at, seconds=at / 4)
        for at, value in enumerate(values, start=1)
    )


def kept(points: list[Point], stride: float) -> list[Point]:
    """Expected contents of a bucket, by a naive implementation."""
    found: set[Point] = set()
    for bucket in {math.floor(point.x / stride) for point in points}:
        inside = [point for point in points if math.floor(point.x / stride) == bucket]
        found |= {min(inside, key=lambda p: (p.value, p.iteration)), max(inside, key=lambda p: (p.value, -p.iteration))}
        found.add(max(inside))
    return sorted(found)


@how(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    values=st.lists(st.sampled_from([-1.5, 0.0, 0.25, 3.0]) | st.floats(-9, 9), min_size=1, max_size=260),
    axis=st.sampled_from(curves.AXES),
    width=st.integers(30, 120),
    ends=st.tuples(st.floats(0, 1), st.floats(0, 1)),
)
def test_buckets_keep_min_max_and_last_and_short_ranges_every_point(
    run: Run, values: list[float], axis: curves.Axis, width: int, ends: tuple[float, float]
) -> None:
    MetricPoint.objects.filter(run=run).delete()
    fill(run, values)
    scale = {"iteration": 1.0, "tokens": 100.0, "seconds": 0.25}[axis]
    low, high = (scale * len(values) * end for end in sorted(ends))
    everything = [Point(at, at * scale, value) for at, value in enumerate(values, start=1)]
    inside = [point for point in everything if low <= point.x <= high]

    found = curves.cut([run.pk], [WAVE], axis=axis, low=low, high=high, width=width)

    points = found.curves.get((run.pk, WAVE), [])
    assert len(points) <= width + 3 or not found.stride
    assert points == (kept(inside, found.stride) if found.stride else inside)
    if found.stride == 0:
        assert len(inside) <= width


def test_the_browser_computes_the_same_buckets(run: Run) -> None:
    values = [math.sin(at / 9) + (5.0 if at == 777 else 0.0) for at in range(1, 1001)]
    fill(run, values)
    found = curves.cut([run.pk], [WAVE], width=120)
    points = [[at, value] for at, value in enumerate(values, start=1)]
    data = {"points": points, "stride": found.stride, "half": found.stride / 2}
    expected = [[point.iteration, point.value] for point in found.curves[run.pk, WAVE]]
    assert evaluate("curves/series.js", "compress(data.points, data.stride)", data) == expected
    twice = "compress(compress(data.points, data.half), data.stride)"
    assert evaluate("curves/series.js", twice, data) == expected
    assert [777, values[776]] in expected, "no spike is lost"


@pytest.mark.parametrize("last", [0, 1, 199, 200, 399, 400, 10_000, 123_456])
def test_server_and_browser_agree_on_the_bucket_width(last: int) -> None:
    stride = curves.choose_stride(last)
    assert last // stride < curves.BUCKETS
    assert stride == 1 or last // (stride // 2) >= curves.BUCKETS
    assert evaluate("curves/series.js", "strideOf(data)", last) == stride


def test_smoothing_weighs_by_distance_and_has_no_bias_at_the_start() -> None:
    values = evaluate("curves/series.js", "smooth([1, 2, 12], [4, 8, 0], 0.5)", None)
    assert values[0] == 4
    assert values[1] == pytest.approx((4 * 0.5 + 8) / 1.5)
    assert values[2] < 0.02, "ten iterations later the past hardly counts"
    assert evaluate("curves/series.js", "smooth([1, 2], [4, 8], 0)", None) == [4, 8]


@pytest.mark.parametrize("count", [1, 40])
def test_the_query_count_of_the_curves_is_constant(
    count: int, run: Run, who: Visitors, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for name in ("reward/mean", "entropy/mean", "policy/loss"):
        fill(run, [0.5] * (25 * count), name)
    with django_assert_max_num_queries(15):
        assert who.owner.get(f"/runs/{run.slug}/curves").status_code == 200
    with django_assert_max_num_queries(6):
        names = "names=reward/mean&names=entropy/mean,policy/loss"
        answer = who.owner.get(f"/runs/{run.slug}/curves.json?{names}").json()
        assert answer["runs"][run.slug].keys() == {"reward/mean", "entropy/mean", "policy/loss"}


def fetch_curves(who: Visitors, run: Run, query: str = "") -> dict[str, Any]:
    response = who.viewer.get(f"/runs/{run.slug}/curves.json?{query}")
    assert response.status_code == 200
    return dict(response.json())


def test_a_zoom_requests_full_resolution(run: Run, who: Visitors) -> None:
    fill(run, [float(at % 7) for at in range(2000)])
    whole = fetch_curves(who, run, f"names={WAVE}&width=90")
    assert whole["stride"] > 1
    assert len(whole["runs"][run.slug][WAVE]["iteration"]) <= 93
    part = fetch_curves(who, run, f"names={WAVE}&width=90&from=500.5&to=560")
    assert part["stride"] == 0
    assert part["runs"][run.slug][WAVE]["iteration"] == list(range(501, 561))


def test_another_axis_includes_its_positions(run: Run, who: Visitors) -> None:
    fill(run, [1.0, 2.0, 3.0])
    assert fetch_curves(who, run, "x=tokens&names=reward/mean")["runs"][run.slug] == {
        WAVE: {"iteration": [1, 2, 3], "x": [100.0, 200.0, 300.0], "value": [1.0, 2.0, 3.0]}
    }
    assert fetch_curves(who, run, "names=none/such")["runs"][run.slug] == {}


@pytest.mark.parametrize(
    "query", ["x=colour&names=a", "from=abc&names=a", "to=nan&names=a", "width=inf&names=a", "x=tokens"]
)
def test_an_invalid_query_is_answered_with_a_reason(query: str, run: Run, who: Visitors) -> None:
    response = who.owner.get(f"/runs/{run.slug}/curves.json?{query}")
    assert response.status_code == 400
    assert response.json()["error"].endswith(".")


def test_all_values_can_be_downloaded_as_csv(run: Run, who: Visitors) -> None:
    fill(run, [1.0, 2.0])
    MetricPoint.objects.create(run=run, name="entropy/mean", iteration=2, value=0.5, tokens=200, seconds=0.5)
    response = who.viewer.get(f"/runs/{run.slug}/curves.csv")
    rows = list(csv.DictReader(io.StringIO(response.content.decode())))
    assert rows == [
        {"iteration": "1", "tokens": "100", "seconds": "0.25", "entropy/mean": "", "reward/mean": "1.0"},
        {"iteration": "2", "tokens": "200", "seconds": "0.5", "entropy/mean": "0.5", "reward/mean": "2.0"},
    ]
    one = who.viewer.get(f"/runs/{run.slug}/curves.csv?names=entropy/mean")
    assert f'{run.slug}-entropy-mean.csv"' in one["Content-Disposition"]


def test_the_page_shows_best_and_last_values_and_events(run: Run, who: Visitors) -> None:
    fill(run, [0.25, 0.75, 0.5], "success/rate")
    run.alarms.create(seq=1, iteration=2, state="watch", message="The spread falls.", time=run.created_at)
    run.checkpoints.create(iteration=3, path="checkpoints/3", bytes=1, time=run.created_at)
    MetricPoint.objects.create(run=run, name="odd/one", iteration=1, value=1, tokens=1, seconds=1)
    values = who.owner.get(f"/runs/{run.slug}/curves?values").content.decode()
    row = '<td class="number right">75.0%</td><td class="number right">2</td>'
    assert contains(values, row)
    page = who.owner.get(f"/runs/{run.slug}/curves").content.decode()
    assert "watch since iteration 2" in page
    assert contains(page, "at iteration 3")
    assert "odd/one" in page, "a metric of another version is shown all the same"


def test_intervals_and_limits_share_the_chart_of_their_metric() -> None:
    names = [
        "eval/fixed/success",
        "eval/fixed/success_low",
        "eval/fixed/success_best_play",
        "eval/fixed/success_high",
        "echo_trap/spread",
        "echo_trap/spread_limit",
        "reward/mean",
    ]
    charts = {chart.spec.name: chart.partners for section in curves.sections(names) for chart in section.charts}
    assert charts == {
        "reward/mean": {},
        "eval/fixed/success": {
            "low": "eval/fixed/success_low",
            "high": "eval/fixed/success_high",
            "best": "eval/fixed/success_best_play",
        },
        "echo_trap/spread": {"limit": "echo_trap/spread_limit"},
    }


def test_metric_names_are_found_without_reading_points(run: Run, who: Visitors) -> None:
    play(run)
    assert curves.load_metric_names([run.pk]) == sorted(set(run.metrics.values_list("name", flat=True)))


def test_the_overview_comes_first(run: Run, who: Visitors) -> None:
    fill(run, [0.3, 0.4], f"eval/{run.environment}/success")
    fill(run, [0.9, 0.95], "eval/Other/success")
    fill(run, [1.0, 2.0], "reward/mean")
    fill(run, [0.9, 0.8], "entropy/mean")
    fill(run, [0.1, 0.2], "echo_trap/entropy")
    fill(run, [3.0, 3.0], "echo_trap/entropy_limit")
    everything = curves.sections(curves.load_metric_names([run.pk]))
    overview, rest = curves.split_overview(everything, run.environment)
    assert [chart.spec.name for chart in overview] == [f"eval/{run.environment}/success", "reward/mean", "entropy/mean"]
    assert not {chart.spec.name for section in rest for chart in section.charts} & {
        chart.spec.name for chart in overview
    }
    described = {name: metric for section in curves.catalog(everything) for name, metric in section["metrics"].items()}
    assert described["echo_trap/entropy"]["partners"] == {"limit": "echo_trap/entropy_limit"}
    assert described["reward/mean"]["better"] == "up"
    assert curves.extent([run.pk], overview, rest) == {"first": 0, "iteration": 2, "tokens": 200, "seconds": 0.5}


def test_without_an_evaluation_the_overview_begins_with_success_while_training() -> None:
    overview, _ = curves.split_overview(curves.sections(["success/rate", "reward/mean"]), "Sokoban")
    assert [chart.spec.name for chart in overview] == ["success/rate", "reward/mean"]


def test_metrics_of_other_trainers_are_in_sections_by_prefix_and_the_usual_ones_at_the_top() -> None:
    names = ["grads/layer_10/norm", "grads/layer_2/norm", "objective/kl", "eval_loss", "train/loss", "reward/of_theirs"]
    overview, rest = curves.split_overview(curves.sections([*names, "reward/zero_std_share"]), "")
    assert [chart.spec.name for chart in overview] == ["eval_loss", "train/loss"]
    assert [(section.key, [chart.spec.name for chart in section.charts]) for section in rest] == [
        ("reward", ["reward/zero_std_share", "reward/of_theirs"]),
        ("grads", ["grads/layer_2/norm", "grads/layer_10/norm"]),
        ("other", ["objective/kl"]),
    ]
    assert curves.catalog(rest)[1]["metrics"] == {"grads/layer_2/norm": {}, "grads/layer_10/norm": {}}


def test_a_page_of_thousands_of_metrics_has_their_names_but_no_charts(run: Run, who: Visitors) -> None:
    many = [f"grads/layer_{number}" for number in range(3000)]
    MetricPoint.objects.bulk_create(
        MetricPoint(run=run, name=name, iteration=1, value=1, tokens=1, seconds=1) for name in [*many, "reward/mean"]
    )
    response = who.owner.get(f"/runs/{run.slug}/curves")
    page = response.content.decode()
    assert re.findall(r'data-metric="([^"]+)"', page) == ["reward/mean"]
    assert contains(page, '<span class="soft small" data-count>3000</span>')
    assert "grads/layer_2999" in page
    assert len(gzip.compress(response.content)) < 50_000
