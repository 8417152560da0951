"""Where the time of a run went: tracks, shares, the trace for Perfetto, and what the run cost."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pytest_django import Settings

from tests.webapp import journal_builder
from tests.webapp.fragments import contains
from tests.webapp.page_requests import Visitors, who
from trainer.journal.events import Evaluation, Event, IterationTimeline, Metrics, TimelineSpan
from webapp.core import env
from webapp.ingest.rebuild import do_rebuild_ended
from webapp.ingest.tailer import JournalTailer
from webapp.runs import timeline
from webapp.runs.models import Run
from webapp.runs.run_cost import run_cost

__all__ = ["who"]

BEGAN = 1_790_000_000.0


def span(start: float, seconds: float, **work: float) -> TimelineSpan:
    return TimelineSpan(start=start, seconds=seconds, work=work)


def lap(iteration: int, **fields: Any) -> IterationTimeline:
    """Ten seconds: six of rollout, three of them sampling, and three of update."""
    tracks = {
        "processor": [span(0, 10, busy=5)],
        "rollout actor 10": [span(0, 6, sampling=3, environment=1)],
        "rollout actor 2": [span(0, 6, sampling=6)],
        "trainer": [span(0, 6, rollout=6), span(6, 3, update=3)],
    }
    values: dict[str, Any] = {"part": "iteration", "began": BEGAN + 10 * iteration, "seconds": 10, "tracks": tracks}
    return IterationTimeline(iteration=iteration, **values | fields)


def judged(iteration: int, success: float) -> Evaluation:
    return Evaluation(
        iteration=iteration,
        suite="Sokoban",
        prompts=40,
        success=success,
        success_low=0.0,
        success_high=1.0,
        reward=0.0,
        turns=1.0,
        final=False,
    )


def used(iteration: int, **counts: float) -> Metrics:
    values = {f"attempts/{use}": count for use, count in counts.items()}
    return Metrics(
        iteration=iteration, tokens=1, seconds=1.0, values=values | {"time/rollout": 6.0, "time/update": 3.0}
    )


def tell(run: Run, *events: Event) -> Run:
    journal_builder.write(run.folder, *events)
    JournalTailer(run).drain()
    return Run.objects.get(pk=run.pk)


@pytest.fixture
def timed(run: Run) -> Run:
    """Three iterations, the third one twice; the second without an update; 10 and 20 of 40 puzzles solved."""
    return tell(
        run,
        journal_builder.started(),
        lap(0, part="start", seconds=4, tracks={"trainer": [span(0, 4, load=3)]}),
        judged(0, 0.25),
        *(event for n in (1, 2, 3) for event in (used(n, trained=3, equal_rewards=1), lap(n))),
        Metrics(iteration=2, tokens=1, seconds=1.0, values={"update/skipped": 1.0}),
        journal_builder.started(attempt=2, from_iteration=2, evaluated=0),
        used(3, trained=4),
        lap(3),
        judged(3, 0.5),
    )


def test_tracks_are_in_order_and_their_shares_add_up(timed: Run) -> None:
    part = timeline.find_part(timed, None)
    assert part is not None
    picture = timeline.draw(part, 20)
    assert (part.iteration, part.attempt, picture.seconds) == (3, 2, 20)
    assert [track.name for track in picture.tracks] == ["trainer", "rollout actor 2", "rollout actor 10", "processor"]
    assert [round(track.idle, 6) for track in picture.tracks] == [0.1, 0.4, 0.6, 0.5]
    sampling, environment = picture.tracks[2].rectangles
    assert (sampling.left, sampling.width, sampling.height) == (0, 30, 11)
    assert environment.top == sampling.top + sampling.height
    assert environment.title == "environments, texts and the journal: 1.00 s of 6.00 s, at 0.00 s"
    recorded, shares = timeline.recent_shares(timed)
    assert recorded == 3
    assert shares[0].shares == [("rollout", 0.6), ("update", 0.3)]


def test_the_trace_opens_in_perfetto(timed: Run, who: Visitors) -> None:
    response = who.viewer.get(f"/runs/{timed.slug}/trace.json")
    trace = json.loads(b"".join(response.streaming_content))  # type: ignore[attr-defined]
    slices = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    names = {event["tid"]: event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "thread_name"}
    assert sorted(names.values()) == ["processor", "rollout actor 10", "rollout actor 2", "trainer"]
    rollout = next(event for event in slices if event["name"] == "rollout")
    assert (names[rollout["tid"]], rollout["ts"], rollout["dur"]) == ("trainer", (BEGAN + 10) * 1e6, 6e6)
    assert sum(event["dur"] for event in slices if event["name"] == "sampling") == 4 * 9e6
    assert [event["args"]["repeated"] for event in slices if event["name"] == "iteration 3"] == [True, False]


def test_cost_counts_what_was_repeated_and_what_taught_nothing(timed: Run, settings: Settings) -> None:
    settings.ECHOSCOPE_PRICE_PER_MACHINE_HOUR = 36.0
    cost = run_cost(timed)
    assert cost is not None
    assert (cost.seconds, cost.gpus, round(cost.money, 6)) == (44, 0, 0.44)
    assert (cost.solved, cost.points, cost.seconds_per_point) == (20, 25, 44 / 25)
    assert cost.money_per_solved == pytest.approx(0.022)
    assert [(waste.text, waste.seconds) for waste in cost.wasted] == [
        ("rollout actors with nothing to play, summed over actors", 40),  # 4 and 6 of 10 seconds, in four laps
        ("iterations that were played again after an interruption or a rewind", 10),
        ("iterations without an update", 9),
        ("playing attempts that taught nothing", 1.5),  # a quarter of the attempts of iteration 1
    ]
    Run.objects.filter(pk=timed.pk).update(gpus=2)
    settings.ECHOSCOPE_PRICE_PER_GPU_HOUR = 4.0
    dear = run_cost(Run.objects.get(pk=timed.pk))
    assert dear is not None
    assert (dear.price, round(dear.gpu_hours, 4)) == (8.0, round(2 * 44 / 3600, 4))


def test_a_rebuild_reads_the_same_times_again(timed: Run) -> None:
    Run.objects.filter(pk=timed.pk).update(state="finished")
    before = list(timed.timeline.values_list("attempt", "iteration", "part", "repeated"))
    do_rebuild_ended(Run.objects.get(pk=timed.pk))
    assert list(timed.timeline.values_list("attempt", "iteration", "part", "repeated")) == before


def test_the_page_leads_through_iterations_and_compares_runs(timed: Run, who: Visitors) -> None:
    address = f"/runs/{timed.slug}/time"
    page = who.viewer.get(address).content.decode()
    assert contains(page, "Iteration 3")
    assert 'href="?iteration=2"' in page
    assert contains(page, "What it cost")
    start = who.viewer.get(f"{address}?start=1&zoom=4").content.decode()
    assert contains(start, "Start, before iteration 1")
    assert 'href="?zoom=4&amp;iteration=1"' in start
    both = who.viewer.get(f"{address}?iteration=1&with=http://testserver/runs/{timed.slug}/").content.decode()
    assert both.count('class="timeline-picture') == 2
    assert who.viewer.get(f"{address}?iteration=9").status_code == 404
    assert who.outsider.get(f"{address}?with={timed.slug}").status_code == 404


def test_a_run_without_times_says_so(run: Run, who: Visitors) -> None:
    assert contains(who.viewer.get(f"/runs/{run.slug}/time").content.decode(), "No times yet")


@pytest.mark.parametrize("text", ["-1", "much", "nan", "inf", "1e12"])
def test_prices_are_amounts(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("ECHOSCOPE_PRICE_PER_GPU_HOUR", text)
    with pytest.raises(ValueError, match="ECHOSCOPE_PRICE_PER_GPU_HOUR must be a number from 0"):
        env.amount("ECHOSCOPE_PRICE_PER_GPU_HOUR")
