"""How fast and how large is the page of a long run? Server time with 25,000 trajectories, beside a run with one wave.

    python -m bench.run_page            # 25,000 trajectories
    python -m bench.run_page --quick    # 2,500
    python -m bench.run_page --explain  # and the plan of each of the live page's queries

A journal of real Sokoban games is read by the real ingest into a database of its own, which is removed afterwards. Both
runs are in the same database, and their requests alternate.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import secrets
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.lib import page_weight
from trainer.studies import machine
from webapp.services.addresses import free_port
from webapp.services.child_process import Program, spawn, stop, wait_ready
from webapp.services.postgres import Postgres
from webapp.services.redis import Redis

if TYPE_CHECKING:
    from django.test import Client

    from webapp.runs.models import Run

WAVE = 128  # trajectories in one iteration: 8 groups of 16
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
class Asked:
    """One page of the long run, beside the same page of the short one."""

    page: str
    milliseconds: float
    peer_milliseconds: float
    queries: int
    peer_queries: int
    bytes: int

    @property
    def ratio(self) -> float:
        return self.milliseconds / self.peer_milliseconds


@contextmanager
def servers() -> Iterator[None]:
    """A PostgreSQL as durable as the product's and a Redis, in a temporary folder; Django set up to use them."""
    home = Path(tempfile.mkdtemp(prefix="echoscope-bench-"))
    postgres = Postgres(home / "postgres", free_port(), secrets.token_urlsafe(8))
    redis = Redis(home / "redis", free_port(), secrets.token_urlsafe(8))
    os.environ.update(
        DJANGO_SETTINGS_MODULE="webapp.settings",
        ECHOSCOPE_DATA_DIR=str(home),
        DATABASE_URL=postgres.url(),
        REDIS_URL=redis.url(),
    )
    running: list[tuple[Program, Any]] = []
    try:
        postgres.initialise()
        for program in (postgres.program(home / "postgres.log"), redis.program(home / "redis.log")):
            running.append((program, spawn(program)))
            wait_ready(*running[-1], 60)
        import django
        from django.core.management import call_command

        django.setup()
        postgres.create_database("echoscope")
        call_command("migrate", verbosity=0)
        yield
    finally:
        from django.db import connections

        connections.close_all()
        for program, process in reversed(running):
            stop(program, process)
        shutil.rmtree(home, ignore_errors=True)


def evenly(seq: int) -> float:
    """Fifty events a second."""
    return 1_760_000_000 + seq / 50


def played_lines(iterations: int, clock: Callable[[int], float] = evenly) -> Iterator[str]:
    """The journal of a run in the middle of the iteration after `iterations`; `clock` gives each event its time.

    Four iterations are really played; later ones tell the same games again under names of their own.
    """
    from tests.webapp import recorded_journal
    from trainer.config.run import RunConfig

    config = RunConfig(iterations=iterations + 10)
    config.rollout.groups, config.rollout.group_size = 8, WAVE // 8
    waves = [
        [
            event.model_dump(exclude_none=True)
            for event in recorded_journal.iteration(config, number, skill=0.3 + 0.15 * number)
        ]
        for number in range(1, min(4, iterations) + 1)
    ]
    started, half = (
        recorded_journal.started(config),
        recorded_journal.iteration(config, iterations + 1, 0.6, stop_after=2),
    )
    first = [started.model_dump(exclude_none=True), recorded_journal.evaluated(0, 0.35).model_dump(exclude_none=True)]
    seq = 0

    def line(event: dict[str, Any]) -> str:
        nonlocal seq
        seq += 1
        return json.dumps(event | {"seq": seq, "time": clock(seq)}) + "\n"

    yield from map(line, first)
    for number in range(1, iterations + 1):
        for event in waves[(number - 1) % len(waves)]:
            yield line(renamed(event, number))
        if number % 10 == 0:
            yield line(
                recorded_journal.evaluated(number, 0.35 + 0.3 * number / iterations).model_dump(exclude_none=True)
            )
    for last in half:
        yield line(last.model_dump(exclude_none=True))


def renamed(event: dict[str, Any], iteration: int) -> dict[str, Any]:
    """The same event, told of another iteration."""
    changed = dict(event)
    if "iteration" in changed:
        changed["iteration"] = iteration
    if "trajectory" in changed:
        changed["trajectory"] = _renamed(changed["trajectory"], iteration)
    if "members" in changed:
        changed["members"] = [_renamed(key, iteration) for key in changed["members"]]
    return changed


def _renamed(key: str, iteration: int) -> str:
    return f"{iteration}-{key.partition('-')[2]}"


def fill(title: str, iterations: int) -> tuple[Run, float]:
    """A running run with that many finished iterations in the database, and how long the ingest took."""
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
        raise RuntimeError(f"the journal was not taken in: {run.journal_error or run.iteration}")
    return run, seconds


def visitor() -> Client:
    """A browser of somebody who may see the runs."""
    from django.test import Client

    from webapp.teams.actions import do_create_team, do_create_user

    user = do_create_user("bench", secrets.token_urlsafe(12))
    do_create_team("Bench", user)
    client = Client(headers={"host": "localhost"})
    client.force_login(user)
    return client


def ask(client: Client, long: Run, short: Run) -> list[Asked]:
    """Medians of alternating requests, after one of each that does not count."""
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
            Asked(
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
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures there too")
    options = parser.parse_args()
    iterations = (2_500 if options.quick else 25_000) // WAVE
    words = machine.describe()
    with servers():
        from django.db import connection

        from webapp.trajectories.models import Trajectory, Turn

        client = visitor()
        (short, _), (long, seconds) = fill("Short", 1), fill("Long", iterations)
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")  # what autovacuum does by itself a minute later
        trajectories, turns = long.trajectories.count(), Turn.objects.filter(trajectory__run=long).count()
        peer = Trajectory.objects.filter(run=short).count()
        answers = ask(client, long, short)
        html = client.get(f"/runs/{long.slug}/").content
        parts = page_weight.first_visit(html)
        plans = list(explain(client, long)) if options.explain else []
    print(
        f"{words}\n\n{trajectories:,} trajectories with {turns:,} turns, taken in within {seconds:.0f} s "
        f"({turns / seconds:,.0f} turns a second); the peer has {peer}. Medians of {ROUNDS} requests.\n"
    )
    print("| page | server time | peer | ratio | queries | peer |\n| --- | ---: | ---: | ---: | ---: | ---: |")
    for asked in answers:
        print(
            f"| {asked.page} | {asked.milliseconds:.1f} ms | {asked.peer_milliseconds:.1f} ms | {asked.ratio:.2f} "
            f"| {asked.queries} | {asked.peer_queries} |"
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
            "pages": [asdict(asked) | {"ratio": asked.ratio} for asked in answers],
            "bytes": {name: {"plain": len(data), "gzip": len(gzip.compress(data))} for name, data in parts.items()},
        }
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
