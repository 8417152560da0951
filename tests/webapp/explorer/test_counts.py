"""Counts of the explorer: sums of what is found, read again during a live run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from django.http import QueryDict
from pytest_django import Settings

from tests.webapp import recorded_journal
from tests.webapp.conftest import People
from tests.webapp.explorer.scripted_run import story, write_story
from tests.webapp.page_requests import Visitors, who
from trainer.config.run import RunConfig
from trainer.journal import events as journal
from webapp.explorer.counts import ResultCounts, facts
from webapp.explorer.trajectory_filters import Filters, filter_trajectories
from webapp.runs.models import Run

__all__ = ["who"]

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


JOURNALS = (story, sokoban, lambda: unsent(story()), lambda: unrewarded(story()))


def parsed(query: str) -> Filters:
    filters, errors = Filters.parse(QueryDict(query))
    assert not errors
    return filters


@pytest.fixture
def live(people: People, tmp_path: Path, settings: Settings) -> Run:
    settings.ECHOSCOPE_DATA_DIR = tmp_path
    return Run.objects.create(
        team=people.team,
        author=people.owner,
        title="Recorded",
        config=CONFIG.model_dump(mode="json"),
        environment="Sokoban",
        iterations=4,
    )


@pytest.mark.parametrize("events", JOURNALS)
def test_counts_are_sums_of_what_is_found(events: Callable[[], list[journal.Event]], live: Run) -> None:
    run = write_story(live, events())
    for query in QUERIES:
        found = list(filter_trajectories(run, parsed(query)))
        ended = [one for one in found if one.status in ("success", "failed")]
        rewards = [one.total_reward for one in found if one.rewarded and one.status in ("success", "failed", "unknown")]
        counts = facts(run, parsed(query))
        assert (counts.found, counts.ended, counts.rewarded) == (len(found), len(ended), len(rewards)), query
        assert counts.success == sum(one.status == "success" for one in ended), query
        assert counts.reward == pytest.approx(sum(rewards)), query


def test_a_page_of_a_live_run_reads_the_counts_again(live: Run, who: Visitors) -> None:
    run = write_story(live, story()[:200])
    Run.objects.filter(pk=run.pk).update(state=Run.State.RUNNING)
    page = who.owner.get(f"/runs/{run.slug}/trajectories?split=train").content.decode()
    shown = json.loads(page.partition('id="explorer-counts" type="application/json">')[2].partition("<")[0])
    answer = who.owner.get(f"/runs/{run.slug}/trajectories.json?split=train").json()
    assert shown == {"seq": 200, "found": answer["found"]}
    assert answer["seq"] == 200
    assert answer["words"].startswith(f"{answer['found']} found · ")
    assert answer["words"] in page


def test_beyond_the_limit_the_count_shows_more(live: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write_story(live, story()[:200])
    everything = facts(run, Filters()).found
    monkeypatch.setattr("webapp.explorer.counts.LIMIT", everything)
    assert not facts(run, Filters()).more
    monkeypatch.setattr("webapp.explorer.counts.LIMIT", everything - 1)
    assert facts(run, Filters()) == ResultCounts(everything - 1, 0, 0, 0.0, 0, more=True)
