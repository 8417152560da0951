"""Rows of the GPU benchmark: written at once as JSON Lines, shown as Markdown tables at the end."""

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
        part: its name.
        path: of the file.
        deadline: `time.monotonic()` at which the part should end: rounds stop then.
    """

    part: str
    path: Path
    deadline: float

    def add(self, what: str, **figures: float | str | None) -> None:
        """Write a row."""
        self._write({"what": what, "figures": figures})
        print(f"{self.part}: {what}: {figures}", file=sys.stderr, flush=True)

    def failed(self, what: str, error: BaseException | str) -> None:
        """Write down that something could not be measured, with its traceback."""
        text = error if isinstance(error, str) else "".join(traceback.format_exception(error))
        self._write({"what": what, "error": text})
        print(f"{self.part}: {what} failed:\n{text}", file=sys.stderr, flush=True)

    @contextmanager
    def attempt(self, what: str) -> Iterator[None]:
        """Record whatever ends the block early: the rest of the benchmark goes on, and the row tells."""
        try:
            yield
        except Exception as error:  # noqa: BLE001
            self.failed(what, error)

    @property
    def late(self) -> bool:
        """Whether the part's time is over."""
        return time.monotonic() > self.deadline

    def _write(self, row: dict[str, Any]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"part": self.part} | row) + "\n")


def interleaved(
    contenders: Mapping[str, Callable[[], None]], rounds: int, device: str, recorder: Recorder, warm: int = 1
) -> dict[str, list[dict[str, float]]]:
    """Let the contenders do their work in turn, round by round, until the rounds are over or time is.

    A contender that fails is recorded and left out from then on.

    Args:
        rounds: counted ones, at least one of which is played however late it is.
        warm: rounds before them.
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
    """Median of a figure over the rounds."""
    return statistics.median(clock[what] for clock in clocks)


def speedup(clocks: list[dict[str, float]], base: list[dict[str, float]]) -> float:
    """How many times as fast as the base: the median of the ratios within a round."""
    return statistics.median(own["seconds"] / this["seconds"] for this, own in zip(clocks, base, strict=False))


def read_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def markdown(rows: list[dict[str, Any]]) -> str:
    """A table for each part; what failed is a row with its error."""
    parts: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        parts.setdefault(row["part"], []).append(row)
    return "\n\n".join(_table(part, own) for part, own in parts.items())


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
    """The line of a traceback that names the error: the last one without indentation."""
    lines = [line for line in error.strip().splitlines() if line and not line[0].isspace()]
    return lines[-1].replace("|", "/")


def _cell(value: float | str | None) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value.replace("|", "/")
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
