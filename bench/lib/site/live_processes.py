"""Processes of `bench.live` besides the product: journal writer, ingest, watching sockets.

    python -m bench.lib.site.live_processes write|ingest|watch …      started by bench.live

Latency is computed through a shared file with one double per event: the monotonic clock, common to all processes of the
machine, at which its line was written.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

TICK = 0.01  # seconds between writes
HEAD = re.compile(r'\{"type":\s*"events",\s*"first":\s*(\d+),\s*"last":\s*(\d+)')
CONNECT_TIMEOUT = 120.0


def moments(path: Path, events: int) -> np.ndarray:
    """Write time of each event, 0 if not yet written; memory-mapped, shared by all processes that open the file."""
    if not path.exists():
        with path.open("wb") as file:
            file.truncate(8 * (events + 1))
    return np.memmap(path, dtype=np.float64, mode="r+")


def lines(source: Path | None) -> Iterator[str]:
    """An endless consistent journal: recorded iterations repeated under new trajectory names."""
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
    """Ingest loop of a supervisor without a trainer: a step, then its interval."""
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


class Watcher:
    """One socket: are the events contiguous, and how old were they on arrival?"""

    def __init__(self) -> None:
        self.cursor = 0
        self.missing = self.twice = self.resyncs = 0
        self.greeted = False
        self.ages: list[np.ndarray] = []

    def receive(self, text: str, written: np.ndarray) -> bool:
        """Record a frame. Returns whether it was the first hello, sent once the server has admitted the socket."""
        now = time.monotonic()
        match = HEAD.match(text)
        if match is None:
            self.resyncs += text.startswith('{"type": "resync"')
            greeted, self.greeted = self.greeted, self.greeted or text.startswith('{"type": "hello"')
            return self.greeted and not greeted
        first, last = int(match[1]), int(match[2])
        if self.cursor:
            self.missing += max(0, first - self.cursor - 1)
            self.twice += max(0, self.cursor + 1 - first)
        self.cursor = last
        self.ages.append(now - written[first : last + 1])
        return False


async def watch(url: str, cookie: str, sockets: int, shared: Path, events: int) -> None:
    """Open the sockets, say "listening", and count until SIGTERM; then the figures as JSON."""
    from websockets.asyncio.client import connect
    from websockets.typing import Origin

    written = moments(shared, events)
    watchers = [Watcher() for _ in range(sockets)]
    listening = asyncio.Semaphore(0)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)

    async def follow(watcher: Watcher) -> None:
        async with connect(
            url,
            origin=Origin(f"http://{urlsplit(url).netloc}"),
            additional_headers={"Cookie": cookie},
            compression=None,
            max_size=None,
            max_queue=None,
        ) as socket:
            async for message in socket:
                if watcher.receive(str(message), written):
                    listening.release()
                if str(message).startswith('{"type": "ping"'):
                    await socket.send('{"type": "pong"}')

    tasks = [asyncio.create_task(follow(watcher)) for watcher in watchers]
    async with asyncio.timeout(CONNECT_TIMEOUT):
        for _ in tasks:
            await listening.acquire()
    print("listening", flush=True)
    await ended.wait()
    broken = sum(task.done() for task in tasks)
    for task in tasks:
        task.cancel()
    ages = np.concatenate([age for watcher in watchers for age in watcher.ages] or [np.zeros(1)])
    last = int(np.flatnonzero(written)[-1]) if written.any() else 0
    print(
        json.dumps(
            {
                "p50": 1000 * float(np.percentile(ages, 50)),
                "p99": 1000 * float(np.percentile(ages, 99)),
                "max": 1000 * float(ages.max()),
                "deliveries": int(ages.size),
                "missing": sum(watcher.missing + last - watcher.cursor for watcher in watchers),
                "twice": sum(watcher.twice for watcher in watchers),
                "resyncs": sum(watcher.resyncs for watcher in watchers),
                "broken": broken,
            }
        ),
        flush=True,
    )


@contextmanager
def part(name: str, *words: str, cookie: str = "") -> Iterator[subprocess.Popen[str]]:
    """Run one of these processes until the end of the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.lib.site.live_processes", name, *words],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "BENCH_COOKIE": cookie},
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
    options = parser.parse_args()
    if options.part == "write":
        write(options.journal, options.shared, options.rate, options.seconds, options.source, options.events)
    elif options.part == "ingest":
        ingest(options.slug)
    else:
        asyncio.run(watch(options.url, os.environ["BENCH_COOKIE"], options.sockets, options.shared, options.events))


if __name__ == "__main__":
    sys.exit(main())
