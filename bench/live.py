"""Latency from a journal line to the browser: a journal replayed to many sockets through the whole product.

    python -m bench.live                                   # 100, 500, 2,000 events/s to 1, 100, 300 sockets
    python -m bench.live --rates 500 --sockets 100 --seconds 600      # is memory flat?
    python -m bench.live --rates 750 --sockets 1 --seconds 360 --browser  # an hour, ten times as fast
    python -m bench.live --rates 50 --sockets 10000 --seconds 30      # a run that many people watch
    python -m bench.live --quick

Every cell starts the web process and an ingest at the supervisor's interval, writes lines at a constant rate, and
counts frames in the sockets of other processes, visitors without an account. Writer and watchers share the machine's
cores. The last columns say what the watchers themselves took, and for how long a frame that had arrived waited for
them (p99): where that is a large part of the latency, the row ends with a note, and the site is faster than it says.
With --browser, a real
Chromium on the run's page reports the age of the newest finished trajectory when it appears.
"""

from __future__ import annotations

import argparse
import json
import secrets
import signal
import statistics
import subprocess
import time
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil

from bench.lib.site.live_processes import part, web
from bench.lib.site.servers import servers
from bench.lib.site.socket_watchers import quantile
from trainer.studies import machine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webapp.runs.models import Run

DRAIN = 3.0  # seconds
SOCKETS_PER_PROCESS = 5000


@dataclass(frozen=True)
class Cell:
    """One rate and one number of sockets.

    Times in milliseconds, memory in MiB at the start and at the end, CPU time as a share of one core.
    """

    rate: int
    sockets: int
    events: int = 0
    p50: float = 0.0
    p99: float = 0.0
    max: float = 0.0
    missing: int = 0
    twice: int = 0
    resyncs: int = 0
    broken: int = 0
    web_before: float = 0.0
    web_after: float = 0.0
    ingest_before: float = 0.0
    ingest_after: float = 0.0
    web_cpu: float = 0.0
    ingest_cpu: float = 0.0
    clients_cpu: float = 0.0
    clients_wait: float = 0.0
    dom_p50: float | None = None
    dom_p99: float | None = None
    heap_before: float | None = None
    heap_after: float | None = None

    @property
    def is_limited_by_clients(self) -> bool:
        """True if the watchers took more of a core than the web process, or a fourth of the latency."""
        return self.clients_cpu > max(self.web_cpu, 0.5) or self.clients_wait > self.p99 / 4

    def row(self) -> str:
        """Return a table row."""
        broken = f", {self.broken} sockets broke" if self.broken else ""
        dom = "–" if self.dom_p50 is None else f"{self.dom_p50:,.0f} / {self.dom_p99:,.0f} ms"
        heap = "–" if self.heap_before is None else f"{self.heap_before:,.0f} → {self.heap_after:,.0f}"
        return (
            f"| {self.rate:,} | {self.sockets} | {self.events:,} | {self.p50:,.0f} ms | {self.p99:,.0f} ms | "
            f"{self.max:,.0f} ms | {self.missing} / {self.twice}{broken} | "
            f"{self.web_before:,.0f} → {self.web_after:,.0f} | "
            f"{self.ingest_before:,.0f} → {self.ingest_after:,.0f} | {self.web_cpu:.0%} / {self.ingest_cpu:.0%} | "
            f"{dom} | {heap} | {self.clients_cpu:.0%} | {self.clients_wait:,.0f} ms |"
            f"{' limited by the clients' if self.is_limited_by_clients else ''}"
        )


COLUMNS = (
    "events/s",
    "sockets",
    "events",
    "p50",
    "p99",
    "max",
    "lost / duplicated",
    "web, MiB",
    "ingest, MiB",
    "core: web / ingest",
    "DOM p50 / p99",
    "page, MiB",
    "core: clients",
    "clients' wait",
)
HEADER = f"| {' | '.join(COLUMNS)} |\n|{' ---: |' * len(COLUMNS)}"


def resident(pid: int) -> float:
    """Return the resident memory of a process in MiB."""
    return float(psutil.Process(pid).memory_info().rss) / 2**20


def busy(pid: int) -> float:
    """Return the CPU seconds of a process so far."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def new_run(rate: int, sockets: int) -> Run:
    """Create a running run without a trainer."""
    from trainer.config.run import RunConfig
    from webapp.runs.models import Run
    from webapp.teams.models import Team

    config = RunConfig(iterations=100_000)
    config.rollout.groups, config.rollout.group_size = 8, 16
    run = Run.objects.create(
        team=Team.objects.get(),
        title=f"{rate} events/s, {sockets} sockets",
        config=config.model_dump(mode="json"),
        environment="Sokoban",
        iterations=config.iterations,
        state=Run.State.STARTING,
        visibility=Run.Visibility.LINK,
    )
    run.folder.mkdir(parents=True)
    (run.folder / "journal.jsonl").touch()
    return run


def session() -> str:
    """Return the session cookie of a user who may see the runs."""
    from django.conf import settings
    from django.test import Client

    from webapp.teams.actions import do_create_team, do_create_user

    user = do_create_user("bench", secrets.token_urlsafe(12))
    do_create_team("Bench", user)
    client = Client()
    client.force_login(user)
    return f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"


def measure(cell: Cell, seconds: float, source: Path | None, cookie: str, browser: bool) -> Cell:
    """Replay a journal once through the product."""
    from webapp.services.addresses import free_port

    run = new_run(cell.rate, cell.sockets)
    events, shared, port = int(cell.rate * seconds), run.folder / "moments", free_port()
    story = ["--source", str(source)] if source else []
    common = ["--shared", str(shared), "--events", str(events)]
    socket = f"ws://localhost:{port}/ws/runs/{run.slug}/?after=0"
    with (
        web(port) as served,
        part("ingest", "--slug", run.slug) as ingest,
        ExitStack() as stack,
    ):
        watches = [
            stack.enter_context(
                part("watch", "--url", socket, "--sockets", str(sockets), "--number", str(number), *common)
            )
            for number, sockets in enumerate(shares(cell.sockets))
        ]
        read_line(ingest)
        for watch in watches:
            read_line(watch)
        memory_before = resident(served), resident(ingest.pid)
        work = busy(served), busy(ingest.pid), sum(busy(watch.pid) for watch in watches)
        write = ["--journal", str(run.folder / "journal.jsonl"), "--rate", str(cell.rate), "--seconds", str(seconds)]
        with page(port, run.slug, cookie, browser) as seen, part("write", *write, *story, *common) as writer:
            writer.wait(seconds + 120)
            clients = sum(busy(watch.pid) for watch in watches) - work[2]
            work = busy(served) - work[0], busy(ingest.pid) - work[1], clients
            time.sleep(DRAIN)
            displayed, heap = seen()
        after = resident(served), resident(ingest.pid)
        for watch in watches:
            watch.send_signal(signal.SIGTERM)
        result = together([json.loads(read_line(watch)) for watch in watches])
    ages = [1000 * age for age in finished_ages(run, displayed)]
    return replace(
        cell,
        events=events,
        **result,
        web_before=memory_before[0],
        web_after=after[0],
        ingest_before=memory_before[1],
        ingest_after=after[1],
        web_cpu=work[0] / seconds,
        ingest_cpu=work[1] / seconds,
        clients_cpu=work[2] / seconds,
        dom_p50=statistics.median(ages) if ages else None,
        dom_p99=statistics.quantiles(ages, n=100)[-1] if len(ages) > 1 else None,
        heap_before=heap[0] if heap else None,
        heap_after=heap[1] if heap else None,
    )


def shares(sockets: int) -> list[int]:
    """Return the number of sockets of each watching process."""
    processes = -(-sockets // SOCKETS_PER_PROCESS)
    return [sockets // processes + (number < sockets % processes) for number in range(processes)]


def read_line(process: subprocess.Popen[str]) -> str:
    """Return the next line of a process; waits for it."""
    assert process.stdout is not None
    return process.stdout.readline()


def together(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Combine the figures of a cell's watching processes."""
    histogram = np.zeros(1 + max((int(age) for part in parts for age in part["ages"]), default=0))
    for figures in parts:
        for age, count in figures["ages"].items():
            histogram[int(age)] += count
    sums = {name: sum(figures[name] for figures in parts) for name in ("missing", "twice", "resyncs", "broken")}
    ages = {name: 1000 * quantile(histogram, share) for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))}
    return sums | ages | {"clients_wait": 1000 * max(figures["turn"] for figures in parts)}


OBSERVE = """() => {
  window.seen = [];
  const place = document.querySelector('[data-finished]');
  new MutationObserver(() => {
    const link = place.querySelector('a');
    if (link) window.seen.push([Date.now() / 1000, new URL(link.href).pathname.split('/').pop()]);
  }).observe(place, {childList: true, subtree: true});
}"""


@contextmanager
def page(port: int, slug: str, cookie: str, enabled: bool) -> Iterator[Any]:
    """Open the run's page in Chromium. Yields a function that returns the displayed trajectories (time, and the slug
    listed first under "just finished") and the heap in MiB at the start and now, garbage collected."""
    if not enabled:
        yield lambda: ([], ())
        return
    from playwright.sync_api import sync_playwright

    from tests.chromium import ARGUMENTS
    from tests.suite.browser import find

    name, value = cookie.split("=", 1)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=find(), args=ARGUMENTS)
        context = chromium.new_context()
        context.add_cookies([{"name": name, "value": value, "domain": "localhost", "path": "/"}])
        tab = context.new_page()
        tab.goto(f"http://localhost:{port}/runs/{slug}/")
        tab.evaluate(OBSERVE)
        inspector = context.new_cdp_session(tab)
        inspector.send("Performance.enable")

        def heap() -> float:
            inspector.send("HeapProfiler.collectGarbage")
            metrics = inspector.send("Performance.getMetrics")["metrics"]
            return float(next(metric["value"] for metric in metrics if metric["name"] == "JSHeapUsedSize")) / 2**20

        heap_before = heap()
        yield lambda: (tab.evaluate("() => window.seen"), (heap_before, heap()))
        chromium.close()


def finished_ages(run: Run, displayed: list[tuple[float, str]]) -> list[float]:
    """Return the age of each trajectory's end when the page first displayed it."""
    from trainer.journal.events import TrajectoryFinished
    from trainer.journal.reader import read
    from webapp.trajectories.models import Trajectory

    ended = {
        event.trajectory: event.time
        for event in read(run.folder / "journal.jsonl")
        if isinstance(event, TrajectoryFinished)
    }
    keys = dict(Trajectory.objects.filter(run=run).values_list("slug", "key"))
    first: dict[str, float] = {}
    for moment, name in displayed:
        first.setdefault(name, moment)
    return [moment - ended[keys[name]] for name, moment in first.items() if keys.get(name) in ended]


def main() -> None:
    """Measure all cells, print the table and write the JSON file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", type=int, nargs="+", default=[100, 500, 2000])
    parser.add_argument("--sockets", type=int, nargs="+", default=[1, 100, 300])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--journal", type=Path, help="a recorded journal instead of games played by a solver")
    parser.add_argument("--browser", action="store_true", help="open the run's page in a real browser, too")
    parser.add_argument("--quick", action="store_true", help="one cell, five seconds")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rates, sockets, seconds = options.rates, options.sockets, options.seconds
    if options.quick:
        rates, sockets, seconds = [100], [10], 5.0
    cells = []
    print(f"{machine.describe()}; {seconds:.0f} s a cell\n\n{HEADER}", flush=True)
    with servers():
        cookie = session()
        for rate in rates:
            for count in sockets:
                cell = measure(Cell(rate, count), seconds, options.journal, cookie, options.browser)
                cells.append(cell)
                print(cell.row(), flush=True)
    if options.json:
        facts = {"machine": machine.describe(), "seconds": seconds, "cells": [asdict(cell) for cell in cells]}
        options.json.write_text(json.dumps(facts, indent=2) + "\n")


if __name__ == "__main__":
    main()
