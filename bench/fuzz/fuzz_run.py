"""Fuzzing of the whole site: pages, forms, API, websockets, and imports of mutated journals, as all kinds of visitors.

    python -m bench.fuzz --requests 2000
    python -m bench.fuzz --requests 100000 --seed 7 --json fuzz.json
    python -m bench.fuzz --seed 7 --replay 4711    # the same request again, with its traceback

Requests are sent in process, through all middleware, with a real PostgreSQL and Redis; websockets through the ASGI
application. All URL patterns and all operations of the OpenAPI document are included, with arguments that exist or are
odd, and with the parameters that views read. The changes of each unit are rolled back, so that a unit depends only on
--seed and its number. The report counts answers with a status of 500 or more, interrupted answers, sockets that end
with an internal error, answers slower than five seconds, and a team's canaries in answers to others. The exit code
is 1 if there are any of the first four. Each kind of finding is printed when it is first seen; Ctrl-C ends early, with
a report on what was sent.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.fuzz.sender import SLOW_ANSWER, Finding, Sender, Tally
from bench.fuzz.site import Site, build
from bench.lib.site.servers import servers
from trainer.studies import machine
from webapp.services.unprivileged_user import child_setup

SITE_FILE = "fuzz-site.json"
REPORT_INTERVAL = 60.0
EXAMPLES = 3


def fuzz(site: Site, seed: int, requests: int, first: int, step: int, progress: bool) -> Tally:
    """Send units `first`, `first + step`, … until at least so many requests were sent."""
    sender = Sender(site, seed)
    stopped = _stop_on_interrupt()
    number, reported, seen = first, time.monotonic(), set[tuple[str, str, str]]()
    while sender.tally.requests.total() < requests and not stopped:
        sender.unit(number)
        number += step
        for finding in sender.tally.findings:
            if finding.key not in seen:
                seen.add(finding.key)
                print(f"{time.strftime('%H:%M:%S')}  {': '.join(finding.key)} (unit {finding.unit})", flush=True)
        if progress and time.monotonic() - reported > REPORT_INTERVAL:
            reported = time.monotonic()
            done = sender.tally.requests.total() * step
            print(f"{time.strftime('%H:%M:%S')}  about {done:,} requests, {len(seen)} kinds of findings", flush=True)
    sender.close()
    return sender.tally


def _stop_on_interrupt() -> list[int]:
    """Return a list that is empty until the process is interrupted; the unit under way is finished first."""
    stopped: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: stopped.append(number))
    return stopped


def in_processes(site: Site, seed: int, requests: int, processes: int) -> Tally:
    """Share the requests among processes, each with a copy of the database."""
    from django.conf import settings
    from django.db import connections

    home = Path(settings.ECHOSCOPE_DATA_DIR)
    site.save(home / SITE_FILE)
    name = settings.DATABASES["default"]["NAME"]
    if processes == 1:
        return fuzz(site, seed, requests, 0, 1, progress=True)
    connections.close_all()
    _copy_database(name, [f"{name}_{number}" for number in range(processes)])
    workers = []
    for number in range(processes):
        address = os.environ["DATABASE_URL"].rpartition("/")[0] + f"/{name}_{number}"
        options = ["--part", str(number), str(processes), "--seed", str(seed), "--requests", str(requests // processes)]
        argv = [sys.executable, "-m", "bench.fuzz", *options]
        setup = child_setup(None, signal.SIGTERM)
        workers.append(subprocess.Popen(argv, env={**os.environ, "DATABASE_URL": address}, preexec_fn=setup))
    tally = Tally()
    try:
        for number, worker in enumerate(workers):
            if _wait(worker, workers):
                raise RuntimeError(f"process {number} of the fuzzer failed")
            tally.add(load(home / f"fuzz-{number}.json"))
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    return tally


def _wait(worker: subprocess.Popen[bytes], workers: Sequence[subprocess.Popen[bytes]]) -> int:
    """Return the exit code of a process.

    Ctrl-C is passed on to all processes, which then end with their results so far.
    """
    try:
        return worker.wait()
    except KeyboardInterrupt:
        for other in workers:
            other.send_signal(signal.SIGINT)
        return worker.wait()


def _copy_database(name: str, copies: list[str]) -> None:
    import psycopg
    from psycopg import sql

    address = os.environ["DATABASE_URL"].rpartition("/")[0] + "/postgres"
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()",
            [name],
        )
        for copy in copies:
            statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
            connection.execute(statement.format(sql.Identifier(copy), sql.Identifier(name)))


def save(tally: Tally, path: Path) -> None:
    path.write_text(json.dumps(figures(tally)))


def load(path: Path) -> Tally:
    data = json.loads(path.read_text())
    statuses = Counter({int(status): count for status, count in data["statuses"].items()})
    findings = [Finding(**finding) for finding in data["findings"]]
    return Tally(Counter(data["requests"]), statuses, Counter(data["routes"]), findings)


def figures(tally: Tally) -> dict[str, Any]:
    """Return the tally as JSON."""
    return {
        "requests": dict(tally.requests),
        "statuses": dict(sorted(tally.statuses.items())),
        "routes": dict(tally.routes),
        "findings": [vars(finding) for finding in tally.findings],
    }


def report(tally: Tally, seed: int, seconds: float) -> str:
    """Return the tables and, for each kind of finding, requests that show it."""
    total = tally.requests.total()
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in tally.requests.most_common())
    classes = Counter(f"{status // 100}xx" if status else "none" for status in tally.statuses.elements())
    answers = ", ".join(f"{count:,} {name}" for name, count in sorted(classes.items()))
    lines = [
        f"{total:,} requests in {seconds / 60:.1f} minutes ({total / seconds:.0f} per second) to {len(tally.routes)} "
        f"routes: {kinds}",
        f"Answers: {answers}",
    ]
    groups: dict[tuple[str, str, str], list[Finding]] = defaultdict(list)
    for finding in tally.findings:
        groups[finding.key].append(finding)
    counts = Counter(finding.what for finding in tally.findings)
    lines.append(f"Findings: {', '.join(f'{count} {what}' for what, count in counts.items()) or 'none'}")
    for (what, route, cause), group in sorted(groups.items(), key=lambda item: -len(item[1])):
        lines.append(f"\n{what} × {len(group)}: {route}: {cause}")
        for finding in group[:EXAMPLES]:
            lines.append(f"    {finding.request}")
            lines.append(f"    python -m bench.fuzz --seed {seed} --replay {finding.unit}")
    return "\n".join(lines)


def replay(site: Site, seed: int, number: int) -> Tally:
    """Send one unit again; errors are logged with their tracebacks."""
    logging.disable(logging.NOTSET)
    sender = Sender(site, seed)
    sender.unit(number)
    sender.close()
    return sender.tally


def main() -> int:
    """Build the site, send the requests, print the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--replay", type=int, help="number of a unit to send again")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--part", type=int, nargs=2, help=argparse.SUPPRESS)  # number of this process, and of all
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    logging.disable(logging.CRITICAL)  # thousands of refused requests
    if options.part:
        import django

        django.setup()
        number, processes = options.part
        home = Path(os.environ["ECHOSCOPE_DATA_DIR"])
        site = Site.load(home / SITE_FILE)
        tally = fuzz(site, options.seed, options.requests, number, processes, progress=number == 0)
        save(tally, home / f"fuzz-{number}.json")
        return 0
    print(f"{machine.describe()}; seed {options.seed}", flush=True)
    with servers():
        site = build()
        began = time.monotonic()
        if options.replay is not None:
            tally = replay(site, options.seed, options.replay)
        else:
            tally = in_processes(site, options.seed, options.requests, max(1, options.processes))
        seconds = time.monotonic() - began
    print(report(tally, options.seed, seconds))
    if options.json:
        facts = {"machine": machine.describe(), "seed": options.seed, "seconds": seconds, **figures(tally)}
        options.json.write_text(json.dumps(facts, indent=2) + "\n")
    return int(any(finding.what != SLOW_ANSWER for finding in tally.findings))
