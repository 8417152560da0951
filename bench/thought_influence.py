"""The influence of thoughts on the next actions through training, in each world of the pocket policy.

    python -m bench.thought_influence --out var/thought-influence                     # about half an hour on two cores
    python -m bench.thought_influence --out var/thought-influence --chart influence.svg

Each world is trained with its preset, with all checkpoints kept. At each of them, the thoughts of attempts of the
evaluation there are replaced, as in `python -m trainer branch RUN --thoughts 8 --evaluation`. What is trained and
measured already is not repeated.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from trainer.branching.asking import Asker
from trainer.branching.local_player import LocalPlayer
from trainer.branching.player import Weights
from trainer.branching.questions import answer
from trainer.journal import reader
from trainer.journal.branches import Interval, Survey, SurveyThoughts
from trainer.journal.events import Evaluation
from trainer.journal.protocol import JOURNAL_FILE
from trainer.loops.stages import checkpoints
from trainer.metrics.charts import Panel, Series, document
from trainer.studies import machine

WORLDS = {
    "Sokoban": "sokoban-starpo_s-pocket",
    "FrozenLake": "frozen_lake-starpo_s-pocket",
    "Bandit": "bandit-starpo_s-pocket",
}
RESULTS = "surveys.json"


@dataclass(frozen=True)
class Measured:
    """The influence of thoughts after an iteration, and the success of the evaluation whose attempts were taken."""

    world: str
    iteration: int
    success: float
    attempts: int
    influence: Interval | None
    follows_false_claims: Interval | None


def train(preset: str, folder: Path, iterations: int, every: int, prompts: int) -> None:
    """Train a preset to its end, from its newest checkpoint if there is one. Raises CalledProcessError."""
    if iterations in checkpoints.checkpoint_iterations(folder):
        return
    changes = {
        "iterations": iterations,
        "policy.threads": 1,
        "checkpoint.every": every,
        "checkpoint.keep": iterations // every + 2,
        "evaluation.every": every,
        "evaluation.prompts": prompts,
    }
    command = [sys.executable, "-m", "trainer", "train", "--preset", preset, "--out", str(folder)]
    command += [part for name, value in changes.items() for part in ("--set", f"{name}={value}")]
    subprocess.run([*command, *(["--resume"] if (folder / JOURNAL_FILE).exists() else [])], check=True)


def survey(folder: Path, iteration: int, attempts: int, samples: int) -> Survey:
    """Replace the thoughts of attempts of the evaluation after an iteration."""
    player = LocalPlayer.load(Weights(folder, iteration), threads=1)
    try:
        question = SurveyThoughts(id="survey", iteration=iteration, suite=None, samples=samples, attempts=attempts)
        found = answer(question, player, Asker(lambda message: None))
        assert isinstance(found, Survey)
        return found
    finally:
        player.close()


def measure(out: Path, iterations: int, every: int, attempts: int, samples: int) -> Iterator[Measured]:
    """Yield the influence in each world at each kept checkpoint, training and asking what is missing."""
    for world, preset in WORLDS.items():
        folder = out / preset
        train(preset, folder, iterations, every, prompts=max(attempts, 64))
        evaluations = {
            event.iteration: event
            for event in reader.read(folder / JOURNAL_FILE)
            if isinstance(event, Evaluation) and event.suite == world
        }
        path = folder / RESULTS
        known = json.loads(path.read_text()) if path.exists() else {}
        for iteration in range(0, iterations + 1, every):
            key = f"{iteration} {attempts} {samples}"
            if key not in known:
                known[key] = survey(folder, iteration, attempts, samples).model_dump(mode="json")
                path.write_text(json.dumps(known))
            found = Survey.model_validate(known[key])
            success = evaluations[iteration].success
            rows = len(found.rows)
            yield Measured(world, iteration, success, rows, found.influence, found.follows_false_claims)


def chart(measured: Sequence[Measured]) -> str:
    """Draw a panel for each world: both influences with their intervals, and the success."""
    panels = []
    for world in WORLDS:
        own = [point for point in measured if point.world == world]
        panels.append(
            Panel(
                world,
                [
                    _line("influence of the thought", 0, [(point.iteration, point.influence) for point in own]),
                    _line("of false claims", 1, [(point.iteration, point.follows_false_claims) for point in own]),
                    Series("success of the evaluation", [(point.iteration, point.success) for point in own], 2),
                ],
                unit="share",
            )
        )
    return document("Influence of the thoughts on the next actions", panels)


def _line(label: str, colour: int, points: Sequence[tuple[int, Interval | None]]) -> Series:
    known = [(x, interval) for x, interval in points if interval is not None]
    return Series(
        label,
        [(x, interval.value) for x, interval in known],
        colour,
        intervals=[(x, interval.low, interval.high) for x, interval in known],
    )


def table(measured: Sequence[Measured]) -> Iterator[str]:
    """Yield the lines of the table."""
    yield "| world | iteration | success | attempts | influence of the thought | of false claims |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for point in measured:
        numbers = [_text(interval) for interval in (point.influence, point.follows_false_claims)]
        yield (
            f"| {point.world} | {point.iteration} | {point.success:.0%} | {point.attempts} | {numbers[0]} "
            f"| {numbers[1]} |"
        )


def _text(interval: Interval | None) -> str:
    return "–" if interval is None else f"{interval.value:.2f} ({interval.low:.2f} to {interval.high:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--iterations", type=int, default=40)
    parser.add_argument("--every", type=int, default=10, help="iterations between two checkpoints that are asked")
    parser.add_argument("--attempts", type=int, default=24, help="attempts of each evaluation")
    parser.add_argument("--samples", type=int, default=8, help="next actions after each thought")
    parser.add_argument("--chart", type=Path, metavar="FILE", help="draw the curves as SVG")
    options = parser.parse_args()
    measured = []
    for point in measure(options.out, options.iterations, options.every, options.attempts, options.samples):
        measured.append(point)
        print(list(table([point]))[-1], flush=True)
    print("\n".join([f"{machine.describe()}, {date.today()}", *table(measured)]))
    if options.chart:
        options.chart.write_text(chart(measured))


if __name__ == "__main__":
    main()
