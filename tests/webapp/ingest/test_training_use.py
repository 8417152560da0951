"""Training use of attempts: stored by the ingest, found by the explorer, shown on pages and in the log."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.webapp import journal_builder
from tests.webapp.fragments import contains
from tests.webapp.javascript import evaluate
from tests.webapp.page_requests import Visitors, who
from trainer.journal.events import AttemptsUsed
from trainer.metrics.training_use import TRAINING_USES
from webapp.ingest.tailer import JournalTailer
from webapp.live.snapshot import snapshot
from webapp.runs.models import LogLine, Run
from webapp.trajectories.models import Trajectory

__all__ = ["who"]


def used(number: int) -> AttemptsUsed:
    return AttemptsUsed(
        iteration=number,
        trained=1,
        unused={"filtered": [f"{number}-1-0", f"{number}-1-1"], "clipped": [f"{number}-0-1"]},
    )


@pytest.fixture
def played(run: Run) -> Run:
    first, second = list(journal_builder.iteration(1)), list(journal_builder.iteration(2))
    journal_builder.write(run.folder, journal_builder.started(), *first[:-1], used(1), first[-1], *second)
    JournalTailer(run).drain()
    run.refresh_from_db()
    return run


def uses(run: Run) -> dict[str, str]:
    return dict(Trajectory.objects.current().filter(run=run).values_list("key", "training_use"))


def test_each_attempt_of_the_iteration_has_its_use(played: Run) -> None:
    assert Counter(uses(played).values()) == {"": 4, "trained": 1, "filtered": 2, "clipped": 1}
    assert uses(played)["1-0-0"] == "trained"
    assert played.training_use == {"iteration": 1, "counts": {"trained": 1, "filtered": 2, "clipped": 1}}
    assert snapshot(played)["training_use"] == played.training_use
    line = LogLine.objects.get(run=played, message__contains="learnt")
    assert line.message == "Iteration 1: the update learnt from 1 of 4 attempts; 2 filtered out, 1 all tokens clipped."


def test_the_bar_has_a_part_for_each_use_that_occurs_in_order() -> None:
    labels = {use: words.label for use, words in TRAINING_USES.items()}
    data = {"use": {"iteration": 1, "counts": {"clipped": 2, "trained": 5, "timeout": 0}}, "labels": labels}
    assert evaluate("live/training_use.js", "partsOf(data.use, data.labels)", data) == [
        {"key": "trained", "label": "Trained on", "count": 5},
        {"key": "clipped", "label": "All tokens clipped", "count": 2},
    ]


def test_a_repeated_iteration_has_no_use_until_it_is_known_again(played: Run) -> None:
    journal_builder.write(played.folder, journal_builder.started(attempt=2, from_iteration=0))
    JournalTailer(played).drain()
    played.refresh_from_db()
    assert played.training_use is None


def test_the_explorer_finds_and_counts_them(played: Run, who: Visitors) -> None:
    page = who.viewer.get(f"/runs/{played.slug}/trajectories?training_use=filtered").content.decode()
    assert contains(page, "2 found")
    for use in ("trained", "filtered", "clipped"):
        assert TRAINING_USES[use].label in page
    wrong = who.viewer.get(f"/runs/{played.slug}/trajectories?training_use=luck").content.decode()
    assert contains(wrong, "is not one of trained")


def test_the_page_of_an_attempt_says_why_it_taught_nothing(played: Run, who: Visitors) -> None:
    slugs = dict(Trajectory.objects.filter(run=played).values_list("key", "slug"))
    assert contains(who.viewer.get(f"/t/{slugs['1-0-1']}").content.decode(), "not trained on: all tokens clipped")
    assert contains(who.viewer.get(f"/t/{slugs['1-0-0']}").content.decode(), ">trained on<")
    assert "trained on" not in who.viewer.get(f"/t/{slugs['2-0-0']}").content.decode()
