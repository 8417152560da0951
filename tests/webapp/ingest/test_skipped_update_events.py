"""Iterations without an update and replaced groups: their lines in the log, and the end of a run without a signal."""

from __future__ import annotations

from tests.webapp import journal_builder
from tests.webapp.fragments import contains
from tests.webapp.page_requests import Visitors, who
from trainer.journal import events
from webapp.ingest import imports
from webapp.ingest.tailer import JournalTailer
from webapp.live.snapshot import snapshot
from webapp.runs.models import LogLine, Run

__all__ = ["who"]

MESSAGE = "Stopped after iteration 2: no group had a learning signal in 2 iterations in a row."


def write(run: Run) -> None:
    journal_builder.write(
        run.folder,
        journal_builder.started(),
        events.GroupsReplaced(iteration=1, round_number=2, rounds=4, replaced=[0, 3], informative=6),
        events.UpdateSkipped(iteration=1, reason="filter", consecutive=1),
        events.UpdateSkipped(iteration=2, reason="no_signal", consecutive=2),
        events.RunFinished(reason="no_signal", iteration=2, message=MESSAGE),
    )
    JournalTailer(run).drain()


def test_the_log_gives_rounds_and_reasons_in_words(run: Run) -> None:
    write(run)
    lines = list(LogLine.objects.filter(run=run).order_by("seq").values_list("level", "message"))[1:]
    assert lines == [
        ("info", "Iteration 1: 6 of 8 puzzles have different rewards; round 2 of at most 4 replaces the others."),
        ("info", "Iteration 1: no update, because the filter kept no puzzle."),
        ("info", "Iteration 2: no update, because no kept puzzle has different rewards, for 2 iterations in a row."),
        ("warning", MESSAGE),
    ]


def test_the_page_gives_the_reason_of_the_end(run: Run, who: Visitors) -> None:
    write(run)
    run.refresh_from_db()
    assert (run.end_reason, run.end_message) == ("no_signal", MESSAGE)
    Run.objects.filter(pk=run.pk).update(state=imports.ENDS["no_signal"])
    page = who.viewer.get(f"/runs/{run.slug}/").content.decode()
    assert contains(page, MESSAGE)
    assert snapshot(run)["seq"] == 5, "the live page passes over events without a place on it"
