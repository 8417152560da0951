"""Lines of a run's log, from the events of its journal."""

from __future__ import annotations

from trainer.journal import events as journal
from webapp.ingest.log_text import lines


def test_a_phase_is_logged_where_it_begins_and_what_follows_its_progress_is_logged_too() -> None:
    events = [
        journal.Phase(phase="rollout", iteration=1, done=0, total=8),
        journal.Phase(phase="rollout", iteration=1, done=4, total=8),
        journal.Notice(level="warning", message="The disk is nearly full."),
        journal.Phase(phase="update", iteration=1, done=0, total=2),
    ]
    logged = [text for _, _, text in lines(events, ("", 0), "puzzle", lambda iteration: f"after {iteration}")]
    assert len(logged) == 3
    assert logged[1] == "The disk is nearly full."
    resumed = [text for _, _, text in lines(events, ("rollout", 1), "puzzle", str)]
    assert resumed == logged[1:], "it began in an earlier batch of events"
