"""Several suites of one evaluation: rows, resumed runs, page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.webapp import journal_builder
from tests.webapp.fragments import compact
from tests.webapp.page_requests import Visitors, who
from trainer.journal import events
from webapp.ingest.tailer import JournalTailer
from webapp.runs.models import Evaluation, Run
from webapp.trajectories.models import Trajectory

__all__ = ["who"]

pytestmark = pytest.mark.django_db


def played(suite: str, *, ended: bool = True, **facts: Any) -> Iterator[events.Event]:
    """A suite of two prompts, optionally unfinished."""
    for number in range(2):
        name = f"{suite}-{number}"
        started = journal_builder.group(0, number, [name], split="eval")
        started.suite = suite
        yield started
        yield journal_builder.turn(name, 0)
        yield journal_builder.end(name, 1)
    if ended:
        yield events.Evaluation(
            iteration=0,
            suite=suite,
            prompts=2,
            success=0.5,
            success_low=0.1,
            success_high=0.9,
            mean_reward=1.0,
            mean_turns=1.0,
            mean_actions=1.0,
            **facts,
        )


def taken_up(attempt: int, *suites: str) -> events.RunStarted:
    event = journal_builder.started(attempt)
    event.iterations, event.evaluated_suites = 0, list(suites)
    return event


def test_a_resumed_run_keeps_its_finished_suites(run: Run) -> None:
    journal_builder.write(run.folder, taken_up(1), *played("Sokoban"), *played("Bandit", ended=False))
    journal_builder.write(run.folder, taken_up(2, "Sokoban"), *played("Bandit"))
    JournalTailer(run).drain()
    assert list(Evaluation.objects.order_by("suite").values_list("suite", flat=True)) == ["Bandit", "Sokoban"]
    kept = {(key, attempt) for key, attempt in Trajectory.objects.values_list("key", "attempt")}
    assert kept == {("Sokoban-0", 1), ("Sokoban-1", 1), ("Bandit-0", 2), ("Bandit-1", 2)}


def test_the_page_shows_every_suite_and_measured_pass_at_k(run: Run, who: Visitors) -> None:
    several = {"samples": 4, "pass_at": {4: 0.75, 1: 0.5}}
    journal_builder.write(run.folder, taken_up(1), *played("Sokoban", **several), *played("FrozenLake:size=5"))
    JournalTailer(run).drain()
    page = compact(who.owner.get(f"/runs/{run.slug}/evaluation").content.decode())
    assert "pass@k" in page
    assert "2 × 4" in page
    first, last = page.index('<span class="soft">1:</span>50'), page.index('<span class="soft">4:</span>75')
    assert first < last
    assert "FrozenLake:size=5" in page
    assert "suite=FrozenLake%3Asize%3D5" in page


def test_without_samples_the_page_omits_pass_at_k(run: Run, who: Visitors) -> None:
    journal_builder.write(run.folder, taken_up(1), *played("Sokoban"))
    JournalTailer(run).drain()
    assert "pass@k" not in who.owner.get(f"/runs/{run.slug}/evaluation").content.decode()


def test_trajectories_are_listed_suite_by_suite(run: Run, who: Visitors) -> None:
    journal_builder.write(run.folder, taken_up(1), *played("Sokoban"), *played("Bandit"))
    JournalTailer(run).drain()
    page = who.owner.get(f"/runs/{run.slug}/trajectories?suite=Bandit")
    assert {row.trajectory.key for row in page.context["rows"]} == {"Bandit-0", "Bandit-1"}
