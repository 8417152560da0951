"""Counts of the explorer during a live run: counts at event n plus later events equal those at event m."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.http import QueryDict
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pytest_django import Settings

from tests.webapp import recorded_journal
from tests.webapp.conftest import People
from tests.webapp.explorer.scripted_run import rollout_events, story, write_story
from tests.webapp.javascript import evaluate
from tests.webapp.journal_builder import started
from trainer.config.run import RunConfig
from trainer.journal import events as journal
from trainer.journal import reader
from webapp.explorer.counts import ResultCounts, facts, live_counts
from webapp.explorer.trajectory_filters import Filters
from webapp.runs.models import Run

QUERIES = [
    "",
    "iteration=2",
    "iteration_min=2&iteration_max=4",
    "split=train",
    "split=eval",
    "suite=fixed",
    "group_number=2",
    "environment=Bandit",
    "outcome=success",
    "outcome=failed",
    "outcome=lost",
    "outcome=truncated",
    "outcome=error",
    "outcome=playing",
    "outcome=waiting",
    "success=no",
    "reward_min=-1.3",
    "reward_max=8.6&reward_min=-0.35",
    "turns_min=2",
    "turns_max=2",
    "actions_min=3",
    "actions_max=5",
    "tokens_min=25",
    "tokens_max=30",
    "format=broken",
    "format=valid",
    "kept=yes",
    "kept=no",
    "alarm=yes",
    "alarm=no",
    "alarm=yes&kept=yes&outcome=success",
    "environment=Sokoban&split=train&iteration_min=3&format=valid",
]
CONFIG = RunConfig(iterations=4)
CONFIG.rollout.groups, CONFIG.rollout.group_size = 2, 2


def sokoban() -> list[journal.Event]:
    """A run that was really played."""
    return [
        recorded_journal.started(CONFIG),
        *recorded_journal.iteration(CONFIG, 1, skill=0.5),
        journal.Alarm(iteration=1, state="watch", message="The spread falls."),
        *recorded_journal.iteration(CONFIG, 2, skill=0.7),
        *recorded_journal.iteration(CONFIG, 3, skill=0.7, stop_after=2),
    ]


def unsent(events: list[journal.Event]) -> list[journal.Event]:
    """The events without numbers of tokens and judgements of the format; every third turn keeps both."""
    return [
        event.model_copy(update={"tokens": None, "format_valid": None})
        if isinstance(event, journal.Turn) and number % 3
        else event.model_copy(update={"tokens": None if number % 2 else event.tokens})
        if isinstance(event, journal.TrajectoryFinished)
        else event
        for number, event in enumerate(events)
    ]


def unrewarded(events: list[journal.Event]) -> list[journal.Event]:
    """The events with every other reward of an attempt missing, and every third success not known."""
    return [
        event.model_copy(
            update={"total_reward": event.total_reward if number % 2 else None}
            | ({} if number % 3 else {"success": None})
        )
        if isinstance(event, journal.TrajectoryFinished)
        else event
        for number, event in enumerate(events)
    ]


JOURNALS = [
    [event.model_dump_json() for event in events]
    for events in (story(), sokoban(), unsent(story()), unrewarded(story()))
]


def recorded(lines: list[str]) -> list[journal.Event]:
    """Copies of the events, since a journal's writer numbers the given ones."""
    return [reader.parse_line(json.dumps(json.loads(line) | {"seq": 1}), 1) for line in lines]


def parsed(query: str) -> Filters:
    filters, errors = Filters.parse(QueryDict(query))
    assert not errors
    return filters


def new_run(people: People) -> Run:
    return Run.objects.create(
        team=people.team,
        author=people.owner,
        title="Recorded",
        config=CONFIG.model_dump(mode="json"),
        environment="Sokoban",
        iterations=4,
    )


def counts(run: Run, query: str) -> dict[str, Any]:
    filters = parsed(query)
    data: dict[str, Any] = json.loads(json.dumps(live_counts(run, filters)))
    return data


def events_after(run: Run, seq: int) -> list[dict[str, Any]]:
    frames = run.batches.filter(last_seq__gt=seq).order_by("last_seq").values_list("frame", flat=True)
    return [event for frame in frames for event in json.loads(frame)["events"] if event["seq"] > seq]


def counted(early: list[dict[str, Any]], events: list[dict[str, Any]], cuts: list[int]) -> list[dict[str, Any]]:
    """Counts computed by the browser from events in several frames."""
    code = """(() => {
        const ends = [...data.cuts, data.events.length];
        return data.early.map((counts) => {
            let start = 0;
            for (const end of ends) { counts = countAll(counts, data.events.slice(start, end)); start = end; }
            return counts;
        });
    })()"""
    result: list[dict[str, Any]] = evaluate(
        "explorer/explorer_counts.js", code, {"early": early, "events": events, "cuts": sorted(cuts)}
    )
    return result


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_counts_updated_by_events_equal_reloaded_counts(
    data: st.DataObject, people: People, tmp_path: Path, settings: Settings
) -> None:
    settings.ECHOSCOPE_DATA_DIR = tmp_path
    events = recorded(data.draw(st.sampled_from(JOURNALS), label="journal"))
    n = data.draw(st.integers(1, len(events)), label="n")
    m = data.draw(st.integers(n, len(events)), label="m")
    run = write_story(new_run(people), events[:n])
    early = [counts(run, query) for query in QUERIES]
    assert all(one["by_itself"] and one["seq"] == n for one in early)
    run = write_story(run, events[n:m])
    since = events_after(run, n)
    cuts = data.draw(st.lists(st.integers(0, len(since)), max_size=3), label="frames")

    late = counted(early, since, cuts)

    for query, one in zip(QUERIES, late, strict=True):
        reloaded = facts(run, parsed(query))
        assert one["by_itself"], query
        assert one["seq"] == m, query
        browser = ResultCounts(**one["now"])
        assert (browser.found, browser.ended, browser.success) == (reloaded.found, reloaded.ended, reloaded.success), (
            query
        )
        assert browser.rewarded == reloaded.rewarded, query
        assert browser.reward == pytest.approx(reloaded.reward), query


@pytest.fixture
def live(people: People, tmp_path: Path, settings: Settings) -> Run:
    settings.ECHOSCOPE_DATA_DIR = tmp_path
    return write_story(new_run(people), recorded(JOURNALS[0])[:200])


def test_a_new_attempt_a_rewind_or_a_gap_requests_counts_from_the_server(live: Run) -> None:
    early = counts(live, "")
    head = {"seq": early["seq"] + 1, "time": 0.0}
    again = started(2, from_iteration=1).model_dump() | head
    rewound = journal.Rewound(number=1, from_iteration=3, to_iteration=1).model_dump() | head
    gap = recorded(JOURNALS[0])[210].model_dump() | {"seq": early["seq"] + 5}
    for event in (again, rewound, gap):
        [late] = counted([early], [event], [])
        assert not late["by_itself"]
        assert late["seq"] == event["seq"]


def test_events_already_applied_change_nothing(live: Run) -> None:
    early = [counts(live, query) for query in QUERIES]
    assert counted(early, events_after(live, 0), [50]) == early


def test_filters_needing_the_database_request_server_counts(live: Run) -> None:
    for query in ("text=corner", "starred=yes", "tag=odd"):
        known = counts(live, query)
        assert not known["by_itself"]
        assert "open" not in known


def test_a_large_rollout_is_counted_by_the_server(
    people: People, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.ECHOSCOPE_DATA_DIR = tmp_path
    run = write_story(new_run(people), [started(), *rollout_events(1, groups=3, size=4, rounds=1)])
    monkeypatch.setattr("webapp.explorer.counts.MAX_OPEN", 12)
    assert counts(run, "")["by_itself"]
    monkeypatch.setattr("webapp.explorer.counts.MAX_OPEN", 11)
    assert not counts(run, "")["by_itself"]


def test_beyond_the_limit_the_count_shows_more(live: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    everything = facts(live, Filters()).found
    monkeypatch.setattr("webapp.explorer.counts.LIMIT", everything)
    assert not facts(live, Filters()).more
    monkeypatch.setattr("webapp.explorer.counts.LIMIT", everything - 1)
    assert facts(live, Filters()) == ResultCounts(everything - 1, 0, 0, 0.0, 0, more=True)
    assert not counts(live, "")["by_itself"]
