"""What do the explorer's search and its indexes cost the ingest? The same journal taken in with and without them.

    python -m bench.explorer_ingest            # 20 iterations of 128 trajectories, seven rounds
    python -m bench.explorer_ingest --quick

Each round takes the journal into a fresh run in a database with the column of searched words, then in one without it,
and so on; the order of the ways turns with every round. Everything is removed afterwards.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.run_page import played_lines, servers
from trainer.studies import machine

if TYPE_CHECKING:
    from webapp.teams.models import Team

WITHOUT = "ALTER TABLE trajectories_turn DROP COLUMN words"
WITH = (
    "ALTER TABLE trajectories_turn ADD COLUMN words tsvector GENERATED ALWAYS AS (to_tsvector('simple'::regconfig, "
    "coalesce(left(event->>'thought', 50000), '') || ' ' || coalesce(left(event->>'answer', 50000), ''))) STORED",
    "CREATE INDEX turn_words ON trajectories_turn USING gin (words)",
)
SORTS = ("total_reward", "turn_count", "action_count", "token_count")
"""Columns that change with every turn: sorting by them reads the run's rows, because an index each costs more."""
WAYS = {
    "as it is": ((), ()),
    "without the searched words": ((WITHOUT,), WITH),
    "with an index for each sort": (
        tuple(f"CREATE INDEX by_{name} ON trajectories_trajectory (run_id, {name})" for name in SORTS),
        tuple(f"DROP INDEX by_{name}" for name in SORTS),
    ),
}


def execute(*statements: str) -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def take_in(team: Team, lines: list[str]) -> float:
    """Seconds for the whole journal, through the real ingest, in a run of its own."""
    from webapp.ingest.tailer import JournalTailer
    from webapp.runs.models import Run

    run = Run.objects.create(team=team, title="Taken in", config={}, environment="Sokoban", state=Run.State.STARTING)
    run.folder.mkdir(parents=True)
    (run.folder / "journal.jsonl").write_text("".join(lines))
    began = time.perf_counter()
    events = JournalTailer(run).drain()
    seconds = time.perf_counter() - began
    if events != len(lines):
        raise SystemExit(f"only {events} of {len(lines)} events were taken in")
    run.delete()
    execute("VACUUM trajectories_turn, trajectories_trajectory, trajectories_group")
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description="What the explorer's search and indexes cost the ingest.")
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="3 iterations, five rounds")
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    options = parser.parse_args()
    iterations, rounds = (3, 5) if options.quick else (options.iterations, options.rounds)
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    with servers():
        from webapp.teams.actions import do_create_team, do_create_user

        team = do_create_team("Agents", do_create_user("ada", "a long secret"))
        lines = list(played_lines(iterations))
        take_in(team, lines)  # the first one fills caches
        names = list(WAYS)
        for number in range(rounds):
            for way in names[number % len(names) :] + names[: number % len(names)]:
                before, after = WAYS[way]
                execute(*before)
                seconds[way].append(take_in(team, lines))
                execute(*after)
    medians = {way: statistics.median(times) for way, times in seconds.items()}
    print(f"{machine.describe()}\n\n{len(lines):,} events, medians of {rounds}\n")
    print("| ingest | seconds | events/s | ratio to as it is |\n| --- | ---: | ---: | ---: |")
    for way, median in medians.items():
        print(f"| {way} | {median:.2f} | {len(lines) / median:,.0f} | {median / medians['as it is']:.2f} |")
    if options.json:
        facts = {"machine": machine.describe(), "events": len(lines), "seconds": seconds}
        options.json.write_text(json.dumps(facts, indent=1))


if __name__ == "__main__":
    main()
