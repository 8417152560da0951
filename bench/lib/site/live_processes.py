"""Processes of `bench.live` besides the product: journal writer, ingest, watching sockets.

    python -m bench.lib.site.live_processes write|ingest|watch …      started by bench.live

Latency is computed through a shared file with one double per event: the monotonic clock, common to all processes of the
machine, at which its line was written.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path

import numpy as np

TICK = 0.01  # seconds between writes
CONNECT_TIMEOUT, CONNECT_SECONDS = 120.0, 0.1
"""Seconds for all sockets, and for each."""
SOCKETS_PER_ADDRESS = 400  # below the quota of a visitor
AT_ONCE = 32


def moments(path: Path, events: int) -> np.ndarray:
    """Return the write time of each event, 0 if not yet written, in memory shared by all processes that open it."""
    if not path.exists():
        with path.open("wb") as file:
            file.truncate(8 * (events + 1))
    return np.memmap(path, dtype=np.float64, mode="r+")


def lines(source: Path | None) -> Iterator[str]:
    """Yield an endless consistent journal: recorded iterations repeated under new trajectory names."""
    from bench.lib.site.journal_replay import played_lines, renamed

    if source is None:
        yield from played_lines(100_000, lambda seq: time.time())
        return
    recorded = [json.loads(line) for line in source.open(encoding="utf-8")]
    training = [event for event in recorded if event.get("split") != "eval" and "suite" not in event]
    trained = {key for event in training if event["type"] == "group_started" for key in event["members"]}
    iterations: dict[int, list[dict[str, object]]] = {}
    now = 0
    for event in training:
        now = event["iteration"] if event["type"] == "group_started" else now
        if (
            event["type"] in {"group_started", "groups_scored", "metrics", "phase"}
            or event.get("trajectory") in trained
        ):
            iterations.setdefault(max(1, now), []).append(event)
    first = next(event for event in recorded if event["type"] == "run_started")
    seq = 1
    yield json.dumps(first | {"seq": seq, "time": time.time()}) + "\n"
    number = 0
    while True:
        for iteration in iterations.values():
            number += 1
            for event in iteration:
                seq += 1
                yield json.dumps(renamed(event, number) | {"seq": seq, "time": time.time()}) + "\n"


def write(journal: Path, shared: Path, rate: float, seconds: float, source: Path | None, events: int) -> None:
    """Append `rate` lines per second, evenly, for `seconds`."""
    written = moments(shared, events)
    story = lines(source)
    story = chain([next(story)], story)  # games are played before the clock starts
    seq = 0
    with journal.open("ab", buffering=0) as file:
        began = time.monotonic()
        while (now := time.monotonic()) - began < seconds and seq < events:
            due = min(events, int((now - began) * rate) + 1) - seq
            if due > 0:
                batch = "".join(islice(story, due)).encode()
                written[seq + 1 : seq + due + 1] = time.monotonic()
                file.write(batch)
                seq += due
            time.sleep(TICK)
    print(json.dumps({"events": seq, "bytes": journal.stat().st_size, "seconds": time.monotonic() - began}))


def ingest(slug: str) -> None:
    """Run the ingest loop of a supervisor without a trainer: a step, then its interval."""
    import django

    django.setup()
    from webapp.core.publisher import publisher
    from webapp.ingest.tailer import JournalTailer
    from webapp.runs.models import Run
    from webapp.worker.supervisor import Intervals

    going = True

    def stop(*_: object) -> None:
        nonlocal going
        going = False

    signal.signal(signal.SIGTERM, stop)
    reader = JournalTailer(Run.objects.get(slug=slug))
    intervals = Intervals()
    reader.step()
    gc.collect()
    gc.freeze()
    print("ready", flush=True)
    while going:
        began = time.monotonic()
        reader.step()
        intervals.sleep(began)
    reader.drain()
    publisher().flush()


def watch(url: str, sockets: int, number: int, shared: Path, events: int) -> None:
    """Open the sockets, print "listening", and count until SIGTERM; then the figures as JSON.

    Visitors have no account; SOCKETS_PER_ADDRESS use each address of the loopback network. `number` is this process's.
    """
    from bench.lib.site.socket_watchers import Watchers
    from webapp.services.open_files import raise_open_files_limit

    raise_open_files_limit()
    written = moments(shared, events)
    watchers = Watchers(url, written)
    going = True

    def stop(*_: object) -> None:
        nonlocal going
        going = False

    signal.signal(signal.SIGTERM, stop)
    deadline = time.monotonic() + CONNECT_TIMEOUT + sockets * CONNECT_SECONDS
    for address, first in enumerate(range(0, sockets, SOCKETS_PER_ADDRESS), 1):
        watchers.open(min(SOCKETS_PER_ADDRESS, sockets - first), f"127.0.{number + 1}.{address}", AT_ONCE, deadline)
    watchers.turns.clear()
    gc.collect()
    gc.freeze()
    print("listening", flush=True)
    while going:
        watchers.turn(0.5)
    last = int(np.flatnonzero(written)[-1]) if written.any() else 0
    histogram = watchers.arrivals.histogram()
    print(
        json.dumps(
            {
                "ages": {int(age): int(histogram[age]) for age in np.flatnonzero(histogram)},
                "turn": float(np.percentile(watchers.turns or [0.0], 99)),
                "missing": sum(watcher.missing + last - watcher.cursor for watcher in watchers.all),
                "twice": sum(watcher.twice for watcher in watchers.all),
                "resyncs": sum(watcher.resyncs for watcher in watchers.all),
                "broken": sum(watcher.broken for watcher in watchers.all),
            }
        ),
        flush=True,
    )


@contextmanager
def part(name: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run one of these processes until the end of the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.lib.site.live_processes", name, *arguments],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


@contextmanager
def web(port: int) -> Iterator[int]:
    """Run the product's web process; yields its process id."""
    from webapp.services import programs
    from webapp.services.child_process import spawn, stop, wait_ready

    logs = Path(os.environ["ECHOSCOPE_DATA_DIR"]) / "log"
    logs.mkdir(exist_ok=True)
    program = programs.web("127.0.0.1", port, {}, logs)
    process = spawn(program)
    try:
        wait_ready(program, process, 60)
        yield process.pid
    finally:
        stop(program, process)


def main() -> None:
    """Run one of the processes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["write", "ingest", "watch"])
    parser.add_argument("--slug")
    parser.add_argument("--journal", type=Path)
    parser.add_argument("--source", type=Path)
    parser.add_argument("--shared", type=Path)
    parser.add_argument("--rate", type=float, default=100.0)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--events", type=int, default=0)
    parser.add_argument("--url")
    parser.add_argument("--sockets", type=int, default=1)
    parser.add_argument("--number", type=int, default=0)
    options = parser.parse_args()
    if options.part == "write":
        write(options.journal, options.shared, options.rate, options.seconds, options.source, options.events)
    elif options.part == "ingest":
        ingest(options.slug)
    else:
        watch(options.url, options.sockets, options.number, options.shared, options.events)


if __name__ == "__main__":
    sys.exit(main())
