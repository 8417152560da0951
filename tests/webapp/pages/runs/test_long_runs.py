"""Pages of a run with as many turns as a long run has."""

from __future__ import annotations

import resource
import time

import pytest
from django.db import connection

from tests.webapp import journal_builder
from tests.webapp.page_requests import Visitors, who
from webapp.ingest.limits import MAX_TURNS
from webapp.ingest.tailer import JournalTailer
from webapp.runs.models import Run
from webapp.trajectories.models import Trajectory, Turn

__all__ = ["who"]

SECONDS = 3.0
"""Processor time for a page. It takes half a second on an idle machine, and seconds if it reads every turn."""
MEBIBYTES = 64
COPY_LAST_TURNS = """
INSERT INTO trajectories_turn (trajectory_id, number, seq, reward, format_valid, event)
SELECT trajectory_id, 2 + n, 1000000 + id * 1000 + n, reward, format_valid, jsonb_set(event, '{turn}', to_jsonb(2 + n))
FROM trajectories_turn CROSS JOIN generate_series(0, %s) AS n WHERE number = 1
"""


@pytest.mark.nightly
@pytest.mark.django_db
def test_pages_of_a_run_with_a_hundred_thousand_turns_read_only_what_they_show(run: Run, who: Visitors) -> None:
    run.folder.mkdir(parents=True)
    first = journal_builder.iteration(1, groups=50, size=2, turns=2)
    journal_builder.write(run.folder, journal_builder.started(), *first)
    JournalTailer(run).drain()
    with connection.cursor() as cursor:
        cursor.execute(COPY_LAST_TURNS, [MAX_TURNS - 3])
        cursor.execute("UPDATE trajectories_trajectory SET turn_count = %s", [MAX_TURNS])
        cursor.execute("ANALYZE trajectories_turn")
    assert Turn.objects.count() == 100_000
    newest = Trajectory.objects.order_by("pk").last()
    assert newest is not None
    tabs = ("", "snapshot.json", "trajectories", "trajectories?text=push", "curves", "evaluation")
    for address in (*(f"/runs/{run.slug}/{tab}" for tab in tabs), f"/t/{newest.slug}"):
        who.owner.get(address)  # templates are loaded once
        used, memory = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        page = who.owner.get(address)
        assert page.status_code == 200
        assert len(page.content) < 4 * 2**20, address
        assert time.process_time() - used < SECONDS, address
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < MEBIBYTES * 1024, address
