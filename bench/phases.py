"""Time and memory of an iteration by phase: rollout, update, checkpoint, evaluation, other.

    python -m bench.phases --preset sokoban-starpo_s-pocket --iterations 9

One run through the command line; figures are read from its journal. The first iteration warms caches and is excluded
from the medians. Memory is the peak resident set of the trainer's process, libraries and weights included.
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from trainer.journal import events, reader
from trainer.journal.protocol import JOURNAL_FILE
from trainer.studies.machine import describe

PHASES = ("rollout", "update", "checkpoint", "rest")
MEBIBYTE = 1024


@dataclass(frozen=True)
class PhaseTimes:
    """Medians over iterations, in seconds; `start` is everything before the first rollout or evaluation."""

    preset: str
    iterations: int
    phases: dict[str, float]
    evaluation: float
    tokens_per_second: float
    trained_tokens: float
    start: float
    whole: float
    peak_mib: float

    @property
    def iteration(self) -> float:
        """Seconds of one iteration without its evaluation."""
        return sum(self.phases.values())


def read(preset: str, folder: Path, whole: float, peak_mib: float) -> PhaseTimes:
    """Read the figures from the journal of a finished run."""
    laps: list[dict[str, float]] = []
    tokens: list[int] = []
    evaluations: list[float] = []
    begun = first = None
    for event in reader.read(folder / JOURNAL_FILE):
        if begun is None:
            begun = event.time
        if first is None and isinstance(event, events.GroupStarted):
            first = event.time
        if isinstance(event, events.Metrics):
            if "time/rollout" in event.values:
                laps.append(event.values)
                tokens.append(event.tokens)
            if "time/evaluate" in event.values:
                evaluations.append(event.values["time/evaluate"])
    if len(laps) < 3:
        raise SystemExit("Too few iterations to take a median of: ask for at least three.")
    warm = laps[1:]
    sampled = [after - before for before, after in itertools.pairwise(tokens)]
    return PhaseTimes(
        preset=preset,
        iterations=len(laps),
        phases={name: statistics.median(lap.get(f"time/{name}", 0.0) for lap in warm) for name in PHASES},
        evaluation=statistics.median(evaluations) if evaluations else 0.0,
        tokens_per_second=statistics.median(lap["throughput/tokens_per_second"] for lap in warm),
        trained_tokens=statistics.median(sampled),
        start=(first or 0.0) - (begun or 0.0),
        whole=whole,
        peak_mib=peak_mib,
    )


def table(split: PhaseTimes) -> str:
    """Results as Markdown."""
    lines = [f"{split.preset}, {split.iterations} iterations, {describe()}", "", "| phase | seconds | share |"]
    lines.append("| --- | --- | --- |")
    for name, seconds in split.phases.items():
        lines.append(f"| {name} | {seconds:.3f} | {seconds / split.iteration:.1%} |")
    lines += [
        f"| **an iteration** | **{split.iteration:.2f}** | |",
        f"| an evaluation | {split.evaluation:.2f} | |",
        "",
        f"{split.trained_tokens:,.0f} tokens sampled in an iteration, {split.tokens_per_second:,.0f} a second while "
        f"playing; {split.start:.1f} s until the first state; peak memory {split.peak_mib:,.0f} MiB.",
    ]
    return "\n".join(lines)


def main() -> None:
    """Train, read the journal, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="sokoban-starpo_s-pocket")
    parser.add_argument("--iterations", type=int, default=9)
    parser.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true", help="three iterations")
    arguments = parser.parse_args()
    iterations = 3 if arguments.quick else arguments.iterations
    settings = [f"iterations={iterations}", f"evaluation.every={max(1, iterations // 2)}", *arguments.set]
    with tempfile.TemporaryDirectory(prefix="echoscope-phases-") as folder:
        command = [sys.executable, "-m", "trainer", "train", "--preset", arguments.preset, "--out", folder]
        for pair in settings:
            command += ["--set", pair]
        began = time.monotonic()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        whole = time.monotonic() - began
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / MEBIBYTE
        split = read(arguments.preset, Path(folder), whole, peak)
    print(table(split))
    if arguments.json:
        facts = {"machine": describe(), **asdict(split), "iteration": split.iteration}
        arguments.json.write_text(json.dumps(facts, indent=2) + "\n")


if __name__ == "__main__":
    main()
