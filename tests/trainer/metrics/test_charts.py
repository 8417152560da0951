"""Still charts: ticks, labels, placement, and documents that are valid for any text."""

import math
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trainer.metrics import charts
from trainer.metrics.charts import Panel, Series, document, fit_axes, round_ticks, spark, tick_labels

VALUES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20)


@given(VALUES)
@example([5e-324])
@example([1e6, 1e6 + 1e-10])
@example([-1e-9, 2e-9])
def test_round_ticks_enclose_the_data(values):
    ticks = round_ticks(values)
    slack = 1e-6 * max(1.0, abs(ticks[0]), abs(ticks[-1]))
    assert ticks[0] <= min(values) + slack
    assert max(values) - slack <= ticks[-1]
    assert 2 <= len(ticks) <= 7


@given(VALUES)
def test_every_point_is_within_the_box(values):
    line = Series("a", list(enumerate(values)), band=[(0, min(values), max(values))])
    axes = fit_axes([line], box=(100, 50))
    for x, y in line.extent:
        assert -0.1 <= axes.x(x) <= 100.1
        assert -0.1 <= axes.y(y) <= 50.1


@pytest.mark.parametrize(("first", "last", "share"), [(-150, 20, 0.25), (-16, 100, 16 / 116), (-8, 0, 1), (0, 5, 0)])
def test_a_long_warm_up_takes_a_quarter_of_the_width(first, last, share):
    axes = charts.Axes(1000, 10, first, last, [0, 1])
    assert axes.x(0) == pytest.approx(1000 * share, abs=0.1)
    assert (axes.x(first), axes.x(last)) == (0, 1000)
    for at in (first, first / 2, 0, last / 3, last):
        assert axes.value(axes.x(at) / 1000) == pytest.approx(at, abs=0.1)


@pytest.mark.parametrize(
    ("unit", "value", "labels"),
    [
        ("share", 0.3, ["0%", "10%", "20%", "30%"]),
        ("%", 40.0, ["0%", "10%", "20%", "30%", "40%"]),
        ("bytes", 4.0 * 1024**3, ["0 GiB", "1 GiB", "2 GiB", "3 GiB", "4 GiB"]),
        ("tokens", 20_000.0, ["0", "5,000", "10,000", "15,000", "20,000"]),
        ("nats", 0.001, ["0", "0.00025", "0.00050", "0.00075", "0.00100"]),
        ("", -4.0, ["−4", "−3", "−2", "−1", "0"]),
    ],
)
def test_labels_have_the_unit_and_the_digits_of_the_ticks(unit, value, labels):
    axes = fit_axes([Series("a", [(0, 0.0), (1, value)])], unit)
    assert tick_labels(axes.ticks, unit) == labels


def test_shares_that_are_zero_throughout_are_drawn_on_the_whole_scale():
    assert fit_axes([Series("a", [(0, 0.0), (1, 0.0)])], "share").ticks == [0, 0.25, 0.5, 0.75, 1]


def test_values_that_are_not_finite_do_not_move_the_axes():
    assert fit_axes([Series("a", [(0, 1.0), (1, math.nan), (2, 2.0)])]).ticks == round_ticks([1.0, 2.0])
    assert "nan" not in charts.plot(
        [Series("a", [(0, 1.0), (1, math.nan), (2, 2.0)])], charts.Axes(10, 10, 0, 2, [1, 2])
    )


def test_a_document_is_valid_xml_for_any_text():
    line = Series("a < b & c", [(1, 2.0)], intervals=[(1, 1.0, 3.0)])
    drawn = document("<title> & more", [Panel("p<q", [line]), Panel("none", [])])
    words = [element.text for element in ElementTree.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")]
    assert {"<title> & more", "p<q", "a < b & c"} <= set(words)


def test_a_spark_fills_its_box_and_fewer_values_end_at_its_right_side():
    assert spark([1.0]) == ""
    assert spark([1.0, 3.0, 2.0]) == "0,28 50,2 100,15"
    assert spark([2.0, 2.0]) == "0,15 100,15"
    assert spark([0.0, 1.0], (80, 18), span=(0, 1), slots=5) == "60,16 80,2"


def test_whiskers_are_placed_on_the_axis_of_shares():
    drawing = ElementTree.fromstring(f"<svg>{charts.whisker(0.25, 0.5, 0.75, [1.0], final=True)}</svg>")
    places = [charts.share_place(share) for share in (0.25, 0.5, 0.75, 1.0)]
    assert drawing.find("circle").get("cx") == places[1]
    assert drawing.find("circle").get("class") == "dot final"
    assert drawing.find("path[@class='line']").get("d").startswith(f"M{places[0]} 8H{places[2]}")
    assert drawing.find("path[@class='pass']").get("d").startswith(f"M{places[3]} ")
    assert charts.whisker_axis().count("<text") == 5
