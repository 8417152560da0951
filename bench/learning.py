"""Learning curve of the demo run: a preset with several seeds, success before and after, and a plot.

    python -m bench.learning --seeds 3 --picture docs/images/learning.svg

Every seed is a separate run through the command line, one after the other on all cores.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from trainer.journal import events, reader
from trainer.journal.protocol import JOURNAL_FILE
from trainer.studies import drawing
from trainer.studies.drawing import Panel, PlotSeries


@dataclass
class Learned:
    """Results of one seed, read from its journal."""

    seed: int
    minutes: float = 0.0
    points: list[tuple[int, float, float, float]] = field(default_factory=list)  # iteration, success, low, high
    rollout: list[tuple[int, float]] = field(default_factory=list)

    @property
    def gain(self) -> float:
        """Percentage points between the first and the last evaluation."""
        return 100 * (self.points[-1][1] - self.points[0][1])


def read(seed: int, folder: Path) -> Learned:
    """The curves of a finished run."""
    learned = Learned(seed)
    for event in reader.read(folder / JOURNAL_FILE):
        if isinstance(event, events.Evaluation):
            learned.points.append((event.iteration, event.success, event.success_low, event.success_high))
        elif isinstance(event, events.Metrics):
            learned.minutes = event.seconds / 60
            if "success/rate" in event.values:
                learned.rollout.append((event.iteration, event.values["success/rate"]))
    return learned


def picture(runs: list[Learned], title: str) -> str:
    """An SVG of success over iterations: evaluations as points with their 95 % intervals, rollouts as faint lines."""
    series = [
        PlotSeries(
            label=f"seed {run.seed}: {run.points[0][1]:.1%} → {run.points[-1][1]:.1%}",
            points=[(iteration, success) for iteration, success, _, _ in run.points],
            colour=number,
            faint=[run.rollout],
            intervals=[(iteration, low, high) for iteration, _, low, high in run.points],
        )
        for number, run in enumerate(runs)
    ]
    legend = [(line.label, line.colour) for line in series]
    return drawing.picture(title, [Panel("", series, share=True)], legend, width=720)


def main() -> None:
    """Run the seeds, print the table, write the picture and JSON files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", default="sokoban-pocket")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE")
    parser.add_argument("--out", type=Path, help="keep the run folders in this directory")
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true", help="three iterations and a small evaluation, as a smoke test")
    arguments = parser.parse_args()
    settings = [*arguments.set]
    if arguments.quick:
        settings += ["iterations=3", "evaluation.prompts=32", "evaluation.every=0"]
    folder = arguments.out or Path(tempfile.mkdtemp(prefix="echoscope-learning-"))
    runs = []
    for seed in range(arguments.seeds):
        out = folder / f"seed-{seed}"
        command = [sys.executable, "-m", "trainer", "train", "--preset", arguments.preset]
        command += ["--out", str(out), "--resume"]
        for pair in [*settings, f"seed={seed}"]:
            command += ["--set", pair]
        began = time.monotonic()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        run = read(seed, out)
        runs.append(run)
        print(
            f"seed {seed}: {run.points[0][1]:.1%} → {run.points[-1][1]:.1%} ({run.gain:+.1f} points) on "
            f"fixed prompts, {run.minutes:.1f} min of work, {time.monotonic() - began:.0f} s in all",
            flush=True,
        )
    if arguments.picture:
        arguments.picture.parent.mkdir(parents=True, exist_ok=True)
        title = f"{arguments.preset}: success on the fixed prompts, T = 0.5"
        arguments.picture.write_text(picture(runs, title), encoding="utf-8")
    if arguments.json:
        facts = {"machine": platform.processor() or platform.machine(), "python": platform.python_version()}
        arguments.json.write_text(json.dumps({**facts, "runs": [asdict(run) for run in runs]}, indent=2) + "\n")


if __name__ == "__main__":
    main()
