"""Rows of the GPU benchmark, written immediately as JSON Lines and shown as Markdown tables at the end."""

from __future__ import annotations

import json
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bench.lib.resource_meter import Clock, Peak

Figures = Mapping[str, float | str | None]


@dataclass(frozen=True)
class Recorder:
    """Appends the rows of one part to a file.

    Args:
        part: name of the part.
        path: path of the file.
        deadline: `time.monotonic()` at which the part should end: no further round starts then.
    """

    part: str
    path: Path
    deadline: float

    def add(self, what: str, **figures: float | str | None) -> None:
        """Write a row."""
        self._write({"what": what, "figures": figures})
        print(f"{self.part}: {what}: {figures}", file=sys.stderr, flush=True)

    def failed(self, what: str, error: BaseException | str) -> None:
        """Record that something could not be measured, with its traceback."""
        text = error if isinstance(error, str) else "".join(traceback.format_exception(error))
        self._write({"what": what, "error": text})
        print(f"{self.part}: {what} failed:\n{text}", file=sys.stderr, flush=True)

    @contextmanager
    def attempt(self, what: str) -> Iterator[None]:
        """Record an error that ends the block early: the rest of the benchmark continues."""
        try:
            yield
        except Exception as error:  # noqa: BLE001
            self.failed(what, error)

    @property
    def late(self) -> bool:
        """True if the part's time is over."""
        return time.monotonic() > self.deadline

    def _write(self, row: dict[str, Any]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"part": self.part} | row) + "\n")


def interleaved(
    contenders: Mapping[str, Callable[[], None]], rounds: int, device: str, recorder: Recorder, warm: int = 1
) -> dict[str, list[dict[str, float]]]:
    """Let the contenders work in turn, round by round, until all rounds are done or the time is over.

    A contender that fails is recorded and left out from then on.

    Args:
        rounds: number of counted rounds; at least one is played, however late it is.
        warm: number of rounds before them.
    Returns:
        seconds, peak bytes and so on of every counted round (`Clock.stop`), by contender.
    """
    peak, taking_part = Peak(device), dict(contenders)
    took: dict[str, list[dict[str, float]]] = {name: [] for name in contenders}
    for number in range(rounds + warm):
        if number > warm and recorder.late:
            break
        for name, work in list(taking_part.items()):
            clock, figures = Clock(peak), None
            with recorder.attempt(name):
                work()
                figures = clock.stop()
            if figures is None:
                del taking_part[name], took[name]
                if device == "cuda":
                    torch.cuda.empty_cache()
                continue
            if number >= warm:
                took[name].append(figures)
            print(f"{recorder.part}: {name}: {figures['seconds']:.3f} s", file=sys.stderr, flush=True)
    return {name: figures for name, figures in took.items() if figures}


def median(clocks: list[dict[str, float]], what: str = "seconds") -> float:
    """Return the median of a figure over the rounds."""
    return statistics.median(clock[what] for clock in clocks)


def speedup(clocks: list[dict[str, float]], base: list[dict[str, float]]) -> float:
    """Return how many times as fast as the base it is: the median of the ratios within a round."""
    return statistics.median(
        contender["seconds"] / this["seconds"] for this, contender in zip(clocks, base, strict=False)
    )


def read_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def markdown(rows: list[dict[str, Any]]) -> str:
    """Return a table for each part; failures are rows with their error."""
    parts: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        parts.setdefault(row["part"], []).append(row)
    return "\n\n".join(_table(part, part_rows) for part, part_rows in parts.items())


def _table(part: str, rows: list[dict[str, Any]]) -> str:
    columns = list(dict.fromkeys(name for row in rows for name in row.get("figures", {}))) or ["result"]
    lines = [f"| {part} | {' | '.join(columns)} |", f"| --- |{' ---: |' * len(columns)}"]
    for row in rows:
        if "error" in row:
            reason = _reason(row["error"])
            lines.append(f"| {row['what']} | failed: {reason} |" + " |" * (len(columns) - 1))
        else:
            lines.append(f"| {row['what']} | {' | '.join(_cell(row['figures'].get(name)) for name in columns)} |")
    return "\n".join(lines)


def _reason(error: str) -> str:
    """Return the line of a traceback that names the error: the last line without indentation."""
    lines = [line for line in error.strip().splitlines() if line and not line[0].isspace()]
    return lines[-1].replace("|", "/")


def _cell(value: float | str | None) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value.replace("|", "/")
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
