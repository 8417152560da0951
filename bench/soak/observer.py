"""State of all runs, read from PostgreSQL by a thread that tolerates its absence."""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass

import psycopg

from bench.soak import histories
from bench.soak.instance import Instance

INTERVAL = 0.25
ENDED = ("finished", "failed", "stopped", "cancelled")
STATEMENT = (
    "SELECT run.slug, run.title, run.state, run.attempt, run.iteration, run.seq, run.rebuilds, run.failure, "
    "run.journal_error, coalesce(worker.name, ''), run.storage_error FROM runs_run AS run "
    "LEFT JOIN runs_worker AS worker ON worker.id = run.worker_id ORDER BY run.id"
)


@dataclass(frozen=True)
class RunState:
    """A row of the table of runs."""

    slug: str
    title: str
    state: str
    attempt: int
    iteration: int
    seq: int
    rebuilds: int
    failure: str
    journal_error: str
    worker: str
    storage_error: str

    @property
    def ended(self) -> bool:
        return self.state in ENDED and not self.wants_space

    @property
    def wants_space(self) -> bool:
        """True if it failed because the disk was full, and waits to be resumed."""
        return self.state == "failed" and self.failure.startswith("No space left on the disk")

    def has_advanced_since(self, earlier: RunState) -> bool:
        """Return True if it has ended or stored further events since then."""
        return self.ended or (self.rebuilds, self.attempt, self.seq) > (earlier.rebuilds, earlier.attempt, earlier.seq)


class Observer:
    """Polls the runs. `runs` is the last answer; `round` counts the answers; `faults` were found by the histories."""

    def __init__(self, instance: Instance) -> None:
        self.runs: dict[str, RunState] = {}
        self.round = 0
        self.faults: dict[str, None] = {}
        self._instance = instance
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="observer", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._end.set()
        self._thread.join(10)

    def _poll(self) -> None:
        while not self._end.is_set():
            try:
                with self.connect() as connection:
                    while not self._end.wait(INTERVAL):
                        self.runs = {row[0]: RunState(*row) for row in connection.execute(STATEMENT).fetchall()}
                        self.round += 1
                        faults = histories.claim_faults(connection), histories.trainer_faults(histories.command_lines())
                        self.faults |= dict.fromkeys(itertools.chain(*faults))  # each once, in order
            except (psycopg.Error, OSError):
                self._end.wait(INTERVAL)

    def connect(self) -> psycopg.Connection[tuple[object, ...]]:
        """Connect to the instance's PostgreSQL with a timeout of seconds. Raises psycopg.Error."""
        addresses = self._instance.addresses
        if addresses is None:
            raise psycopg.OperationalError("the instance has no addresses yet")
        url = addresses.postgres(self._instance.home).url()
        return psycopg.connect(url, autocommit=True, connect_timeout=4, tcp_user_timeout=10_000)
