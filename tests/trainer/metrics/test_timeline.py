"""Spans on tracks: sums are exact, laps cut what is open, many short spans become few."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.metrics.timeline import MAX_SPANS, TRAINER, Timeline


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_lap_has_the_spans_of_each_track(clock: Clock) -> None:
    timeline = Timeline(clock)
    with timeline.span(TRAINER, "rollout"):
        clock.now += 3
    clock.now += 1
    timeline.add("GPU 0", 101, 103, {"busy": 0.5})
    lap = timeline.finish()
    assert lap.seconds == 4
    assert [(span.start, span.seconds, span.work) for span in lap.tracks[TRAINER]] == [(0, 3, {"rollout": 3})]
    assert [(span.start, span.seconds, span.work) for span in lap.tracks["GPU 0"]] == [(1, 2, {"busy": 0.5})]


def test_an_open_span_is_cut_at_the_end_of_a_lap_and_goes_on(clock: Clock) -> None:
    timeline = Timeline(clock)
    clock.now += 1
    number = timeline.open("rollout actor 1", "playing")
    clock.now += 2
    first = timeline.finish()
    clock.now += 4
    timeline.close(number, {"sampling": 3, "environment": 1.5})  # of six seconds, four of them in this lap
    timeline.close(number)
    second = timeline.finish()
    assert first.tracks["rollout actor 1"][0].work == {"playing": 2}
    assert second.tracks["rollout actor 1"][0].work == {"sampling": 2, "environment": 1}
    assert timeline.finish().tracks == {}


def test_what_ended_before_the_lap_does_not_count(clock: Clock) -> None:
    timeline = Timeline(clock)
    timeline.add(TRAINER, 90, 100, "update")
    timeline.add(TRAINER, 98, 102, "update")
    clock.now += 4
    assert [span.work for span in timeline.finish().tracks[TRAINER]] == [{"update": 2}]


@given(st.lists(st.tuples(st.sampled_from(["sampling", "environment"]), st.floats(0.001, 1)), max_size=700))
def test_summaries_keep_the_sums_and_the_order(parts: list[tuple[str, float]]) -> None:
    clock = Clock()
    timeline = Timeline(clock)
    for kind, seconds in parts:
        began = clock.now
        clock.now += seconds
        timeline.add("player", began, clock.now, kind)
    spans = timeline.finish().tracks.get("player", [])
    assert len(spans) <= MAX_SPANS
    for kind in ("sampling", "environment"):
        total = sum(seconds for name, seconds in parts if name == kind)
        assert sum(span.work.get(kind, 0.0) for span in spans) == pytest.approx(total)
    assert all(one.start <= other.start for one, other in pairwise(spans))
    assert all(sum(span.work.values()) <= span.seconds * 1.0001 for span in spans)
