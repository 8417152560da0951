"""Writer of a journal: one event per line, from several threads and processes."""

from __future__ import annotations

import errno
import json
import math
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from echoscope.journal import FILE_NAME
from echoscope.recording.attempt_totals import AttemptTotals, EvaluationMeans
from echoscope.recording.harmless import NotBegun, OnceWarnings
from echoscope.recording.json_values import as_text
from echoscope.recording.line_size import fitting_line

try:
    import fcntl
except ImportError:  # Windows: one process per run
    fcntl = None  # type: ignore[assignment]


GAP = "metric_with_gap"
"""Name in the `extra` of a notice for the metric with a non-finite value."""


class JournalWriter:
    """Appends events to a folder's journal. Each append takes a lock, because the line number is part of the line.

    If the journal cannot be opened, only its folder is known, and every append raises NotBegun.

    Attributes:
        warnings: warnings of the run, for its recorder and its trajectories.
        attempts: number of `run_started` events so far.
        last_iteration: highest iteration with metrics, of iterations that no later attempt superseded.
        gaps: names of metrics for whose first non-finite value this attempt at the run has a notice.
    """

    FILE = FILE_NAME

    def __init__(self, folder: Path, warnings: OnceWarnings | None = None, begun: bool = False) -> None:
        """
        Args:
            warnings: receives the warnings of the run; omitted: they are emitted.
            begun: True if another process must have begun the journal; otherwise nothing is recorded.
        """
        self.folder = folder
        self.warnings = warnings or OnceWarnings()
        self.attempts = self.last_iteration = 0
        self.gaps: set[str] = set()
        self._size = self._lines = self._lost = 0
        self._failure = ""
        self._began: float | None = None
        self._tokens = 0
        self._groups: dict[tuple[int, str], int] = {}
        self._totals = AttemptTotals()
        try:
            if begun and not (folder / self.FILE).exists():
                raise FileNotFoundError(f"call echoscope.init(…, folder={str(folder)!r}) first")
            folder.mkdir(parents=True, exist_ok=True)
            self._open()
            with self._lock, _Locked(self._file.fileno()):
                self._catch_up()
        except Exception as error:  # noqa: BLE001 - lines of another program may be anything
            self.give_up(error)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how copies are made, also in other processes: they append to the same journal."""
        return JournalWriter, (self.folder, self.warnings, True)

    def give_up(self, error: Exception) -> None:
        """Stop recording this run, because its journal cannot be begun or continued."""
        if self._failure:
            return
        self._failure = (
            f"Nothing of this run is recorded: the journal in {self.folder} cannot be written "
            f"({type(error).__name__}: {as_text(error)}). Training goes on. Repair the folder, or pass another "
            "folder= to echoscope.init."
        )
        self.warnings.once(self._failure, self._failure)

    def _open(self) -> None:
        self._process, self._lock = os.getpid(), threading.Lock()
        self._file = (self.folder / self.FILE).open("a+b")

    def write(self, kind: str, **fields: Any) -> None:
        """Append an event. Fields that are None or empty extras are left out; totals and numbers of groups are added.

        A group without an iteration gets the iteration of the newest training group, or the next one if that has
        metrics; a group of the split eval gets the number of finished iterations. Attempts that were used are of the
        same iteration as a training group.

        Raises:
            NotBegun: the journal could not be opened.
            OSError: the file cannot be written; it then contains nothing of the event.
        """
        with self._whole_file():
            self._append(kind, fields)

    def write_metrics(
        self,
        values: Mapping[str, float],
        iteration: int | None,
        extra: Mapping[str, Any],
        gaps: Mapping[str, float] | None = None,
    ) -> None:
        """Append metrics, together with values of AttemptTotals that are not among them.

        Args:
            iteration: None: the iteration of the newest attempts, or the one after the last iteration with metrics.
            gaps: non-finite values. The first of each name is recorded as a notice.
        Raises:
            OSError: as in write().
        """
        with self._whole_file():
            if iteration is None:
                newest = self._totals.newest
                iteration = self.last_iteration + 1 if newest is None else newest
            self._write_totals(limit=iteration)
            every = {**values, **self._totals.fill_in(iteration, values)}
            if every or extra or gaps:  # an iteration whose metrics are all gaps counts, too
                self._append("metrics", {"iteration": iteration, "values": every, "extra": extra})
            for name, value in (gaps or {}).items():
                if name not in self.gaps:
                    self._append("notice", _notice_of_gap(name, value, iteration))

    def write_totals(self) -> None:
        """Append metrics of iterations in which attempts have ended since. Raises OSError, as write()."""
        with self._whole_file():
            self._write_totals()

    def evaluation_means(self, suite: str, iteration: int) -> EvaluationMeans:
        """Return the means of AttemptTotals, including attempts recorded by other processes."""
        with self._whole_file():
            return self._totals.evaluation_means(suite, iteration)

    def _write_totals(self, limit: float = math.inf) -> None:
        for iteration in self._totals.changed(limit):
            if values := self._totals.fill_in(iteration, ()):
                self._append("metrics", {"iteration": iteration, "values": values})

    @contextmanager
    def _whole_file(self) -> Iterator[None]:
        """Lock the file and read everything in it. Failures are counted for a later notice."""
        if self._failure:
            raise NotBegun(self._failure)
        try:
            if self._process != os.getpid() or self._file.closed:  # forked: file and lock are the parent's
                self._open()
            with self._lock, _Locked(self._file.fileno()):
                self._check_in_place()
                self._catch_up()
                yield
        except OSError:
            self._lost += 1
            raise

    def _check_in_place(self) -> None:
        """Raise FileNotFoundError if the file was removed, since anything appended to it would be lost silently."""
        if os.fstat(self._file.fileno()).st_nlink == 0:
            raise FileNotFoundError(errno.ENOENT, "the journal was removed", str(self.folder / self.FILE))

    def _append(self, kind: str, fields: Mapping[str, Any]) -> None:
        if self._lost:
            lost, self._lost = self._lost, 0
            try:
                self._append("notice", _notice_of_loss(lost))
            except OSError:
                self._lost = lost
                raise
        event = {name: value for name, value in fields.items() if value is not None and (name != "extra" or value)}
        if kind == "group_started":
            event.setdefault("iteration", self._current_iteration(event["split"]))
        elif kind == "attempts_used":
            event.setdefault("iteration", self._current_iteration("train"))
        line = {"seq": self._lines + 1, "time": time.time(), "type": kind, **event}
        if kind == "metrics":
            line |= {"tokens": self._tokens} if self._tokens else {}
            line["seconds"] = max(0.0, line["time"] - (self._began or line["time"]))
        elif kind == "group_started":
            line["group"] = self._groups.get((line["iteration"], line["split"]), 0)
        line, data = fitting_line(line, self.warnings)
        try:
            _write_all(self._file.fileno(), data)
        except OSError:
            os.ftruncate(self._file.fileno(), self._size)
            raise
        self._size += len(data)
        self._lines += 1
        self._note(line)

    def _current_iteration(self, split: str) -> int:
        """Return the iteration of a group that begins without one."""
        newest = self._totals.newest
        if split == "eval":
            return self.last_iteration if newest is None else newest
        return self.last_iteration + 1 if newest is None or newest <= self.last_iteration else newest

    def _catch_up(self) -> None:
        """Read lines that other processes have appended, and cut off a line that one of them did not finish."""
        size = os.fstat(self._file.fileno()).st_size
        if size == self._size:
            return
        with (self.folder / self.FILE).open("rb") as reader:
            reader.seek(self._size)
            for line in reader:
                if not line.endswith(b"\n"):
                    os.ftruncate(self._file.fileno(), self._size)
                    return
                self._size += len(line)
                self._lines += 1
                try:
                    self._note(json.loads(line))
                except Exception:  # such as RecursionError
                    if self._lines == 1:
                        raise  # not a journal; later lines are another program's, and sites name them

    def _note(self, event: dict[str, Any]) -> None:
        if self._began is None:
            self._began = float(event["time"])
        self._totals.note(event)
        match event["type"]:
            case "run_started":
                self.attempts += 1
                self.gaps.clear()
                self.last_iteration = event["from_iteration"]
                valid = {"train": self.last_iteration, "eval": event.get("evaluated_iteration", -1)}
                self._groups = {key: count for key, count in self._groups.items() if key[0] <= valid[key[1]]}
            case "group_started":
                self._groups[event["iteration"], event["split"]] = event["group"] + 1
            case "turn":
                self._tokens += event.get("tokens") or 0
            case "metrics":
                self.last_iteration = max(self.last_iteration, event["iteration"])
            case "notice":
                if name := (event.get("extra") or {}).get(GAP):
                    self.gaps.add(name)


def _notice_of_gap(name: str, value: float, iteration: int) -> dict[str, Any]:
    message = (
        f"{name:.200} is not a finite number ({value}) in iteration {iteration}: its curve has a gap. "
        "Later values of it that are not finite are left out without a notice."
    )
    return {"level": "warning", "message": message, "extra": {GAP: name}}


def _notice_of_loss(calls: int) -> dict[str, Any]:
    what = "1 call was not recorded" if calls == 1 else f"{calls:,} calls were not recorded"
    return {"level": "warning", "message": f"{what} before this, as the journal could not be written."}


class _Locked:
    """An exclusive lock of the file between processes."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __enter__(self) -> None:
        if fcntl is not None:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        if fcntl is not None:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
