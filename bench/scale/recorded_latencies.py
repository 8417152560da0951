"""Latencies of responses of a real engine, from the journal of a run: their distribution as quantiles."""

from __future__ import annotations

import json
from pathlib import Path

from trainer.journal.events import GroupStarted, RunStarted, Turn
from trainer.journal.reader import read

FILE = Path(__file__).with_name("latencies.json")
_QUANTILES = 1000


def latencies_of(journal: Path) -> list[float]:
    """Seconds from a trajectory's start or last turn to its next turn, ascending."""
    last: dict[str, float] = {}
    seconds: list[float] = []
    for event in read(journal):
        match event:
            case RunStarted():
                last = {}
            case GroupStarted():
                last |= dict.fromkeys(event.members, event.time)
            case Turn() if event.trajectory in last:
                seconds.append(event.time - last[event.trajectory])
                last[event.trajectory] = event.time
    return sorted(seconds)


def record(journal: Path, source: str) -> None:
    """Write the distribution of a run's latencies beside this module."""
    seconds = latencies_of(journal)
    quantiles = [round(seconds[int((number + 0.5) / _QUANTILES * len(seconds))], 3) for number in range(_QUANTILES)]
    FILE.write_text(json.dumps({"source": source, "responses": len(seconds), "seconds": quantiles}) + "\n")


def recorded() -> list[float]:
    """Quantiles of the recorded latencies in seconds, ascending."""
    seconds: list[float] = json.loads(FILE.read_text())["seconds"]
    return seconds


def description() -> str:
    """Source, median and tail of the recorded latencies."""
    data = json.loads(FILE.read_text())
    seconds = data["seconds"]
    return (
        f"latencies of {data['responses']:,} responses, {data['source']}: median {seconds[500]:.2f} s, "
        f"90 % {seconds[900]:.2f} s, 99 % {seconds[990]:.2f} s, longest {seconds[-1]:.2f} s"
    )
