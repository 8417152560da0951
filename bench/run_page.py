"""Speed and size of the page of a long run: 25,000 trajectories, beside a run with a single iteration.

    python -m bench.run_page            # 25,000 trajectories
    python -m bench.run_page --quick    # 2,500
    python -m bench.run_page --explain  # print the plans of the live page's queries as well

The ingest reads a journal of real Sokoban games into a temporary database. Both runs are in the same database, and
their requests alternate.
"""

from __future__ import annotations

import argparse
import gzip
import json
import secrets
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.lib.site import page_weight
from bench.lib.site.journal_replay import TRAJECTORIES, played_lines
from bench.lib.site.servers import servers
from trainer.studies import machine

if TYPE_CHECKING:
    from django.test import Client

    from webapp.runs.models import Run

ROUNDS = 15
PAGES = {
    "Live": "",
    "Live, its snapshot as JSON": "snapshot.json",
    "Trajectories": "trajectories",
    "Trajectories, the last page": "trajectories?page=last",
    "Trajectories, failed ones": "trajectories?status=failed",
    "Curves": "curves",
    "Evaluation": "evaluation",
}


@dataclass
class PageTiming:
    """Timing of one page of the long run, and of the same page of the short one."""

    page: str
    milliseconds: float
    peer_milliseconds: float
    queries: int
    peer_queries: int
    bytes: int

    @property
    def ratio(self) -> float:
        return self.milliseconds / self.peer_milliseconds


def fill(title: str, iterations: int) -> tuple[Run, float]:
    """Create a running run with finished iterations; returns it and the seconds of the ingest."""
    from trainer.config.run import RunConfig
    from trainer.journal.protocol import JOURNAL_FILE
    from webapp.ingest.tailer import JournalTailer
    from webapp.runs.models import Run
    from webapp.teams.models import Team

    config = RunConfig(iterations=iterations + 10)
    run = Run.objects.create(
        team=Team.objects.get(),
        title=title,
        config=config.model_dump(mode="json"),
        environment="Sokoban",
        iterations=iterations + 10,
        state=Run.State.STARTING,
    )
    run.folder.mkdir(parents=True)
    with (run.folder / JOURNAL_FILE).open("w", encoding="utf-8") as file:
        file.writelines(played_lines(iterations))
    started = time.perf_counter()
    JournalTailer(run).drain()
    seconds = time.perf_counter() - started
    run.refresh_from_db()
    if run.journal_error or run.iteration != iterations:
        raise RuntimeError(f"the journal was not ingested: {run.journal_error or run.iteration}")
    return run, seconds


def visitor() -> Client:
    """Test client of a user who may see the runs."""
    from django.test import Client

    from webapp.teams.actions import do_create_team, do_create_user

    user = do_create_user("bench", secrets.token_urlsafe(12))
    do_create_team("Bench", user)
    client = Client(headers={"host": "localhost"})
    client.force_login(user)
    return client


def ask(client: Client, long: Run, short: Run) -> list[PageTiming]:
    """Medians of alternating requests, after one uncounted request each."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    answers = []
    for name, path in PAGES.items():
        times: dict[int, list[float]] = {long.pk: [], short.pk: []}
        queries, size = {}, 0
        for run in (short, long):
            with CaptureQueriesContext(connection) as captured:
                answer = client.get(f"/runs/{run.slug}/{path}")
            if answer.status_code != 200:
                raise RuntimeError(f"{name}: the site answered {answer.status_code}")
            queries[run.pk], size = len(captured), len(answer.content)
        for _ in range(ROUNDS):
            for run in (long, short):
                started = time.perf_counter()
                client.get(f"/runs/{run.slug}/{path}")
                times[run.pk].append(1000 * (time.perf_counter() - started))
        answers.append(
            PageTiming(
                name,
                statistics.median(times[long.pk]),
                statistics.median(times[short.pk]),
                queries[long.pk],
                queries[short.pk],
                size,
            )
        )
    return answers


def explain(client: Client, run: Run) -> Iterator[str]:
    """The live page's queries, slowest first, each with its plan."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(connection) as captured:
        client.get(f"/runs/{run.slug}/")
    for query in sorted(captured, key=lambda query: -float(query["time"])):
        if not query["sql"].startswith("SELECT"):
            continue
        yield f"\n{1000 * float(query['time']):.0f} ms  {query['sql'][:300]}"
        with connection.cursor() as cursor:
            cursor.execute("EXPLAIN ANALYZE " + query["sql"].replace("%", "%%"), [])
            yield from (f"    {row[0]}" for row in cursor.fetchall())


def main() -> int:
    parser = argparse.ArgumentParser(description="Server time and size of a long run's pages.")
    parser.add_argument("--quick", action="store_true", help="2,500 trajectories instead of 25,000")
    parser.add_argument("--explain", action="store_true", help="print the plan of each query of the live page")
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write the results to this file")
    options = parser.parse_args()
    iterations = (2_500 if options.quick else 25_000) // TRAJECTORIES
    words = machine.describe()
    with servers():
        from django.db import connection

        from webapp.trajectories.models import Trajectory, Turn

        client = visitor()
        (short, _), (long, seconds) = fill("Short", 1), fill("Long", iterations)
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")  # autovacuum does this a minute later
        trajectories, turns = long.trajectories.count(), Turn.objects.filter(trajectory__run=long).count()
        peer = Trajectory.objects.filter(run=short).count()
        answers = ask(client, long, short)
        html = client.get(f"/runs/{long.slug}/").content
        parts = page_weight.first_visit(html)
        plans = list(explain(client, long)) if options.explain else []
    print(
        f"{words}\n\n{trajectories:,} trajectories with {turns:,} turns, ingested within {seconds:.0f} s "
        f"({turns / seconds:,.0f} turns a second); the peer has {peer}. Medians of {ROUNDS} requests.\n"
    )
    print("| page | server time | peer | ratio | queries | peer |\n| --- | ---: | ---: | ---: | ---: | ---: |")
    for timing in answers:
        print(
            f"| {timing.page} | {timing.milliseconds:.1f} ms | {timing.peer_milliseconds:.1f} ms | {timing.ratio:.2f} "
            f"| {timing.queries} | {timing.peer_queries} |"
        )
    print("\n| the first visit to the live page loads | as it is | gzip |\n| --- | ---: | ---: |")
    for kind, (plain, packed) in page_weight.by_kind(parts).items():
        print(f"| {kind} | {plain / 1000:.1f} kB | {packed / 1000:.1f} kB |")
    print("\n".join(plans))
    if options.json:
        figures = {
            "machine": words,
            "trajectories": trajectories,
            "turns": turns,
            "ingest_seconds": seconds,
            "pages": [asdict(timing) | {"ratio": timing.ratio} for timing in answers],
            "bytes": {name: {"plain": len(data), "gzip": len(gzip.compress(data))} for name, data in parts.items()},
        }
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
