"""Ingest cost of the explorer's search column and of sort indexes: the same journal ingested with and without them.

Each round ingests the journal into a fresh run once per variant; the order of the variants rotates.
"""

from __future__ import annotations

import json
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.lib.site.journal_replay import played_lines
from bench.lib.site.servers import servers
from trainer.studies import machine

if TYPE_CHECKING:
    from webapp.teams.models import Team

ITERATIONS, ROUNDS = 20, 7
WITHOUT = "ALTER TABLE trajectories_turn DROP COLUMN words"
WITH = (
    "ALTER TABLE trajectories_turn ADD COLUMN words tsvector GENERATED ALWAYS AS (to_tsvector('simple'::regconfig, "
    "coalesce(left(event->>'thought', 50000), '') || ' ' || coalesce(left(event->>'answer', 50000), ''))) STORED",
    "CREATE INDEX turn_words ON trajectories_turn USING gin (words)",
)
SORTS = ("total_reward", "turn_count", "action_count", "token_count")
"""Columns that change with every turn: sorting by them reads the run's rows, because an index each costs more."""
VARIANTS = {
    "current": ((), ()),
    "without the search column": ((WITHOUT,), WITH),
    "with an index per sort order": (
        tuple(f"CREATE INDEX by_{name} ON trajectories_trajectory (run_id, {name})" for name in SORTS),
        tuple(f"DROP INDEX by_{name}" for name in SORTS),
    ),
}


def execute(*statements: str) -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def ingest(team: Team, lines: list[str]) -> float:
    """Seconds to ingest the whole journal into a new run."""
    from webapp.ingest.tailer import JournalTailer
    from webapp.runs.models import Run

    run = Run.objects.create(team=team, title="Ingested", config={}, environment="Sokoban", state=Run.State.STARTING)
    run.folder.mkdir(parents=True)
    (run.folder / "journal.jsonl").write_text("".join(lines))
    began = time.perf_counter()
    events = JournalTailer(run).drain()
    seconds = time.perf_counter() - began
    if events != len(lines):
        raise SystemExit(f"only {events} of {len(lines)} events were ingested")
    run.delete()
    execute("VACUUM trajectories_turn, trajectories_trajectory, trajectories_group")
    return seconds


def measure(quick: bool, json_path: Path | None) -> None:
    """Print the table, and write the results to `json_path`; `quick` takes 3 iterations and five rounds."""
    iterations, rounds = (3, 5) if quick else (ITERATIONS, ROUNDS)
    seconds: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
    with servers():
        from webapp.teams.actions import do_create_team, do_create_user

        team = do_create_team("Agents", do_create_user("ada", "a long secret"))
        lines = list(played_lines(iterations))
        ingest(team, lines)  # warm-up
        names = list(VARIANTS)
        for number in range(rounds):
            for variant in names[number % len(names) :] + names[: number % len(names)]:
                before, after = VARIANTS[variant]
                execute(*before)
                seconds[variant].append(ingest(team, lines))
                execute(*after)
    medians = {variant: statistics.median(times) for variant, times in seconds.items()}
    print(f"{machine.describe()}\n\n{len(lines):,} events, medians of {rounds}\n")
    print("| ingest | seconds | events/s | ratio to current |\n| --- | ---: | ---: | ---: |")
    for variant, median in medians.items():
        print(f"| {variant} | {median:.2f} | {len(lines) / median:,.0f} | {median / medians['current']:.2f} |")
    if json_path:
        facts = {"machine": machine.describe(), "events": len(lines), "seconds": seconds}
        json_path.write_text(json.dumps(facts, indent=1))
