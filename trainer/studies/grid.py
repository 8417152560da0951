"""Grid of a study: runs its cells, each in a separate folder and process.

A finished cell is skipped and an interrupted one resumes from its checkpoint, so a study can be stopped at any time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import yaml

from trainer.config.files import load_stored
from trainer.config.run import RunConfig
from trainer.journal import events, reader
from trainer.journal.protocol import COMPLETED, INTERRUPTED, JOURNAL_FILE, LOG_FILE
from trainer.studies.cell_settings import configuration
from trainer.studies.machine import hardware
from trainer.studies.study import Arm, Scale, Study

COST, SETTINGS = "cost.json", "settings.yaml"
SESSION = datetime.now(UTC).isoformat(timespec="seconds")
"""Start of this process. Cells that ran in the same sessions of a study had the same machine and neighbours."""
_ENDED = ("completed", "echo_trap", "no_signal")


@dataclass(frozen=True)
class Cell:
    """One run of the grid."""

    environment: str
    arm: Arm
    seed: int
    config: RunConfig
    folder: Path

    @property
    def name(self) -> str:
        return f"{self.environment}/{self.arm.name}/seed-{self.seed}"


class CellFailedError(RuntimeError):
    """A cell ended with an error. The message names it, its log and the log's last line."""


def cells(study: Study, scale: Scale, seeds: int, out: Path, overrides: Sequence[str] = ()) -> list[Cell]:
    """Create the whole grid."""
    return [
        Cell(
            environment,
            arm,
            seed,
            configuration(study, scale, environment, arm, seed, overrides),
            out / environment / arm.name / f"seed-{seed}",
        )
        for environment, arm, seed in study.places(seeds)
    ]


def ended(folder: Path) -> bool:
    """True if the run in that folder is complete."""
    path = folder / JOURNAL_FILE
    if not path.exists():
        return False
    last: events.RunFinished | None = None
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if b'"type":"run_started"' in line:
                last = None
            elif b'"type":"run_finished"' in line and line.endswith(b"\n"):
                event = reader.parse_line(line, number)
                last = event if isinstance(event, events.RunFinished) else None
    return last is not None and last.reason in _ENDED


Play = Callable[[Cell, Callable[[], bool]], None]
"""Runs a cell to its end or to a stop request."""


def run(grid: Sequence[Cell], jobs: int, stop: Callable[[], bool], report: Callable[[str], None], play: Play) -> bool:
    """Run all cells that have not ended, `jobs` at a time. Returns whether all are done; False after a stop request.

    Raises:
        CellFailedError: a cell failed; running cells were stopped first and resume next time.
        ValueError: a folder contains a cell with other settings.
    """
    for cell in grid:
        _check_same(cell)
    remaining = [cell for cell in grid if not ended(cell.folder)]
    if len(remaining) < len(grid):
        report(f"{len(grid) - len(remaining)} of {len(grid)} cells are already complete")
    failed = threading.Event()
    count = iter(range(len(grid) - len(remaining) + 1, len(grid) + 1))

    def work(cell: Cell) -> None:
        if failed.is_set() or stop():
            return
        began = time.monotonic()
        cell.folder.mkdir(parents=True, exist_ok=True)
        text = yaml.safe_dump(cell.config.model_dump(mode="json"), sort_keys=False)
        (cell.folder / SETTINGS).write_text(text, encoding="utf-8")
        try:
            play(cell, lambda: failed.is_set() or stop())
        except BaseException:
            failed.set()
            raise
        if ended(cell.folder):
            report(f"{next(count)} of {len(grid)}: {cell.name}, {time.monotonic() - began:.0f} s")

    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(work, cell) for cell in remaining]
    for future in futures:
        future.result()
    return not stop() and all(ended(cell.folder) for cell in remaining)


def _check_same(cell: Cell) -> None:
    """Require that a cell is resumed with its original settings."""
    path = cell.folder / SETTINGS
    if not path.exists():
        return
    stored = load_stored(path)
    if stored.stable_dump() | {"name": ""} != cell.config.stable_dump() | {"name": ""}:
        raise ValueError(
            f"{cell.folder} holds a cell with other settings: choose another --out, or delete that folder to start over"
        )


def run_in_subprocess(cell: Cell, stop: Callable[[], bool]) -> None:
    """Run a cell in a separate process, like `python -m trainer train`; records its time and memory."""
    command = [sys.executable, "-m", "trainer", "train", "--resume"]
    command += ["--config", str(cell.folder / SETTINGS), "--out", str(cell.folder)]
    threads = str(cell.config.policy.threads or os.cpu_count() or 1)
    began, terminated = time.monotonic(), False
    with (cell.folder / LOG_FILE).open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | {"OMP_NUM_THREADS": threads})
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            if stop() and not terminated:
                terminated = True
                process.terminate()
            time.sleep(0.1)
    process.returncode = os.waitstatus_to_exitcode(status)
    _add_cost(cell.folder, time.monotonic() - began, usage.ru_maxrss)
    # Ctrl-C reaches the whole process group, including a cell that has written its end and is about to exit.
    if process.returncode not in (COMPLETED, INTERRUPTED) and not ended(cell.folder):
        lines = (cell.folder / LOG_FILE).read_text(encoding="utf-8", errors="replace").strip().splitlines() or [
            "no output"
        ]
        raise CellFailedError(f"the cell {cell.name} failed: {lines[-1]} (its log is {cell.folder / LOG_FILE})")


def run_in_process(cell: Cell, stop: Callable[[], bool]) -> None:
    """Run a cell in this process, for cells that take less time than a process start."""
    from transformers.utils import logging

    from trainer.loops import run_factory
    from trainer.paths import default_cache

    logging.disable_progress_bar()
    began = time.monotonic()
    run_factory.run(cell.config, cell.folder, default_cache(), stop)
    _add_cost(cell.folder, time.monotonic() - began, 0)


@dataclass
class Cost:
    """Cost of a cell: wall-clock seconds, peak memory of the process in MiB, sessions and machines of its run."""

    seconds: float = 0.0
    megabytes: float = 0.0
    sessions: list[str] = field(default_factory=list)
    machines: list[str] = field(default_factory=list)


def _add_cost(folder: Path, seconds: float, kilobytes: int) -> None:
    """Add an attempt's time and memory to the cost of the cell."""
    cost = read_cost(folder)
    if sys.platform == "darwin":
        kilobytes //= 1024  # macOS counts bytes
    cost.seconds += seconds
    cost.megabytes = max(cost.megabytes, kilobytes / 1024)
    cost.sessions = list(dict.fromkeys([*cost.sessions, SESSION]))
    cost.machines = list(dict.fromkeys([*cost.machines, hardware()]))
    (folder / COST).write_text(json.dumps(asdict(cost)) + "\n")


def read_cost(folder: Path) -> Cost:
    """Return the recorded cost of a cell; zero before its first attempt ends."""
    path = folder / COST
    return Cost(**json.loads(path.read_text())) if path.exists() else Cost()
