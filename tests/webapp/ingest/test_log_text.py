"""Lines of a run's log, from the events of its journal."""

from __future__ import annotations

import pytest

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


@pytest.mark.parametrize(
    ("attempt", "after", "text"),
    [
        (1, 0, "Attempt 1 started on CPU."),
        (2, 0, "Attempt 2 started on CPU, from the beginning."),
        (2, 8, "Attempt 2 started on CPU, continues after 8."),
        (2, -3, "Attempt 2 started on CPU, continues after -3."),
        (1, -3, "Attempt 1 started on CPU."),
    ],
)
def test_an_attempt_says_where_it_begins(attempt: int, after: int, text: str) -> None:
    started = journal.RunStarted(
        attempt=attempt,
        from_iteration=after,
        iterations=9,
        title="",
        config={},
        device="CPU",
        parameters=1,
        versions={},
    )
    assert [line for _, _, line in lines([started], ("", 0), "puzzle", lambda iteration: f"after {iteration}")] == [
        text
    ]
