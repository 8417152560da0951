"""Invariants of a disturbed run: one trainer, claims with their times, no event before its commit."""

from __future__ import annotations

import queue
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import psycopg

RETRY = 0.5
Connect = Callable[[], psycopg.Connection[Any]]

CLAIMS_WITHOUT_TIME = (
    "SELECT run.slug, run.state FROM runs_run AS run WHERE run.state IN ('starting', 'running') AND (run.lease = '' "
    "OR run.lease_expires_at IS NULL OR run.worker_id IS NULL OR 1 <> (SELECT count(*) FROM runs_deviceuse AS used "
    "WHERE used.run_id = run.id AND used.ended_at IS NULL))"
)
OVERLAPPING_CLAIMS = (
    "SELECT run.slug, one.began_at, other.began_at FROM runs_deviceuse AS one JOIN runs_deviceuse AS other ON "
    "other.run_id = one.run_id AND other.id > one.id AND "
    "other.began_at + interval '10 seconds' < coalesce(one.ended_at, 'infinity') AND "
    "one.began_at + interval '10 seconds' < coalesce(other.ended_at, 'infinity') "
    "JOIN runs_run AS run ON run.id = one.run_id"
)
"""A claim's time is when its worker began to look for a run, although a frozen database may have made it later."""


def claim_faults(connection: psycopg.Connection[Any]) -> list[str]:
    """Find runs that a worker claimed without a lease, its end, or exactly one record of the time of the claim."""
    return [
        f"run {slug} is {state} without a claim and its time" for slug, state in _rows(connection, CLAIMS_WITHOUT_TIME)
    ]


def overlap_faults(connection: psycopg.Connection[Any]) -> list[str]:
    """Find runs with two claims at a time."""
    rows = _rows(connection, OVERLAPPING_CLAIMS)
    return [f"run {slug} has claims of {claim:%H:%M:%S} and {other:%H:%M:%S} at a time" for slug, claim, other in rows]


def _rows(connection: psycopg.Connection[Any], statement: str) -> list[Any]:
    return connection.execute(statement).fetchall()


def trainer_faults(command_lines: Iterable[list[str]]) -> list[str]:
    """Find runs with several trainers among the command lines of the running processes."""
    trainers: dict[str, int] = defaultdict(int)
    for arguments in command_lines:
        if arguments[1:4] == ["-m", "trainer", "train"] and "--out" in arguments[:-1]:
            trainers[Path(arguments[arguments.index("--out") + 1]).name] += 1
    return [f"run {slug} has {count} trainers at a time" for slug, count in trainers.items() if count > 1]


def command_lines() -> list[list[str]]:
    """Return the arguments of the command lines of all running processes."""
    lines = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                lines.append((entry / "cmdline").read_text(errors="replace").rstrip("\0").split("\0"))
            except OSError:
                continue
    return lines


class CommitWatch:
    """Compares events that clients received with what the database has committed, in a thread.

    Only one event at a time, and immediately: a later check would miss an event that was sent a moment too early.
    """

    def __init__(self, connect: Connect) -> None:
        self.faults: list[str] = []
        self.compared = 0
        self._connect = connect
        self._received: queue.Queue[tuple[str, int, int]] = queue.Queue(maxsize=1)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="commits", daemon=True)
        self._thread.start()

    def received(self, slug: str, rebuilds: int, seq: int) -> None:
        """Record an event; it is left out while another one is being compared."""
        try:
            self._received.put_nowait((slug, rebuilds, seq))
        except queue.Full:
            return

    def stop(self) -> None:
        self._end.set()
        self._thread.join(10)

    def _watch(self) -> None:
        while not self._end.is_set():
            try:
                with self._connect() as connection:
                    while not self._end.is_set():
                        self._compare(connection)
            except (psycopg.Error, OSError):
                self._end.wait(RETRY)

    def _compare(self, connection: psycopg.Connection[Any]) -> None:
        try:
            slug, rebuilds, seq = self._received.get(timeout=RETRY)
        except queue.Empty:
            return
        row = connection.execute("SELECT seq, rebuilds FROM runs_run WHERE slug = %s", [slug]).fetchone()
        self.compared += 1
        if row is None or (row[1] == rebuilds and row[0] < seq):  # a rebuild begins with fewer events
            self.faults.append(f"run {slug}: a client received event {seq} while the database had committed {row}")
