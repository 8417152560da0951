"""A run of the running product, observed through its journal, its tables and its page, without Django."""

from __future__ import annotations

import json
import os
import re
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from playwright.sync_api import Page

from tests.running_product import LiveStack
from trainer.journal import events, reader
from trainer.journal.protocol import JOURNAL_FILE
from webapp.services.addresses import stored_addresses

Row = tuple[Any, ...]


@dataclass
class Watched:
    """One run and the page that shows it."""

    stack: LiveStack
    slug: str
    page: Page

    @property
    def folder(self) -> Path:
        return self.stack.home / "runs" / self.slug

    def kill_trainer(self) -> int:
        """Kill -9 its trainer. Returns the killed process id."""
        pid = self.trainer_pid()
        os.kill(pid, signal.SIGKILL)
        return pid

    def trainer_pid(self) -> int:
        return int(json.loads((self.stack.home / "trainers" / f"{self.slug}.json").read_text())["pid"])

    def line_count(self) -> int:
        """Lines of the journal."""
        with (self.folder / JOURNAL_FILE).open("rb") as file:
            return sum(1 for _ in file)

    def query(self, statement: str, *values: object) -> list[Row]:
        """Rows of its database; none while it does not answer."""
        addresses = stored_addresses(self.stack.home)
        assert addresses is not None
        try:
            with psycopg.connect(addresses.postgres(self.stack.home).url(), connect_timeout=5) as connection:
                return connection.execute(statement, values).fetchall()  # type: ignore[call-overload, no-any-return]
        except psycopg.OperationalError:
            return []

    def state(self) -> str:
        rows = self.query("SELECT state FROM runs_run WHERE slug = %s", self.slug)
        return str(rows[0][0]) if rows else ""

    def progress(self) -> tuple[int, int, int]:
        """Attempt, iterations finished and events, according to the database; zeros while it is unavailable."""
        rows = self.query("SELECT attempt, iteration, seq FROM runs_run WHERE slug = %s", self.slug)
        return (int(rows[0][0]), int(rows[0][1]), int(rows[0][2])) if rows else (0, 0, 0)

    def shown(self) -> int:
        """The iteration shown on the page, -1 if none."""
        text = self.page.locator("[data-phase]").inner_text()
        found = re.search(r"Iteration (\d+) of", text)
        return int(found[1]) if found else -1

    def explain(self) -> str:
        """For the message of a test that timed out."""
        log = self.folder / "log.txt"
        return "\n".join(
            [
                f"state {self.state()!r}, (attempt, iteration, events) {self.progress()}, "
                f"journal {self.line_count()} lines, "
                f"page: {self.page.locator('.run-facts').inner_text()!r}",
                log.read_text(errors="replace")[-2000:] if log.exists() else "no log",
                self.stack.logs(),
            ]
        )


def valid_turns(path: Path) -> list[int]:
    """Sequence numbers of the turns that no later attempt superseded, by the rules of webapp/ingest/writer.py."""
    groups: dict[str, events.GroupStarted] = {}
    valid: dict[int, events.GroupStarted] = {}
    for event in reader.read(path):
        match event:
            case events.RunStarted(attempt=attempt, from_iteration=trained, evaluated_iteration=evaluated):
                groups = {}
                if attempt > 1:
                    last = {"train": trained, "eval": evaluated}
                    valid = {seq: group for seq, group in valid.items() if group.iteration <= last[group.split]}
            case events.GroupStarted():
                groups.update(dict.fromkeys(event.members, event))
            case events.Turn():
                valid[event.seq] = groups[event.trajectory]
    return sorted(valid)
