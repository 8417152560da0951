"""Success of a run at its evaluations, read from its journal, and the picture of several runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from trainer.journal import events, reader
from trainer.journal.protocol import JOURNAL_FILE
from trainer.metrics.charts import Panel, Series, document


@dataclass
class Learned:
    """Results of one run.

    Attributes:
        points: iteration, success and its 95 % interval at each evaluation of the run's environment; iterations up to 0
            are before any reinforcement.
        rollout: iteration and success of its training rollouts.
    """

    name: str
    minutes: float = 0.0
    points: list[tuple[int, float, float, float]] = field(default_factory=list)
    rollout: list[tuple[int, float]] = field(default_factory=list)

    @property
    def start(self) -> float | None:
        """Success immediately before the first update by reinforcement: at the last evaluation up to iteration 0."""
        return next((success for iteration, success, *_ in reversed(self.points) if iteration <= 0), None)

    @property
    def gain(self) -> float | None:
        """Percentage points between that evaluation and the last one; None until there are both."""
        if self.start is None or self.points[-1][0] <= 0:
            return None
        return 100 * (self.points[-1][1] - self.start)

    def summary(self) -> str:
        """Summarise in a line: success at the first evaluation, before reinforcement and at the end, gain, minutes."""
        if not self.points:
            return f"{self.name}: no evaluation yet, {self.minutes:.1f} min"
        steps = [self.points[0][1], *([self.start] if self.points[0][0] < 0 and self.start is not None else [])]
        steps += [self.points[-1][1]] if self.points[-1][0] > 0 else []
        gain = "" if self.gain is None else f" ({self.gain:+.1f} points)"
        course = " → ".join(f"{success:.1%}" for success in steps)
        return f"{self.name}: {course}{gain} at iteration {self.points[-1][0]}, {self.minutes:.1f} min of work"


def read(name: str, folder: Path) -> Learned:
    """Read the curves of a run so far; empty if it has no journal."""
    learned = Learned(name)
    journal = folder / JOURNAL_FILE
    suite: str | None = None
    for event in reader.read(journal) if journal.exists() else ():
        if isinstance(event, events.Evaluation):
            suite = event.suite if suite is None else suite
            if event.suite == suite:
                learned.points.append((event.iteration, event.success, event.success_low, event.success_high))
        elif isinstance(event, events.Metrics):
            learned.minutes = event.seconds / 60
            if "success/rate" in event.values:
                learned.rollout.append((event.iteration, event.values["success/rate"]))
    return learned


def picture(runs: list[Learned], title: str) -> str:
    """Draw an SVG of success over iterations: evaluations as points with 95 % intervals, rollouts as faint lines."""
    shown = [run for run in runs if run.points]
    series = [
        Series(
            label=f"{run.name}: {run.points[0][1]:.1%} → {run.points[-1][1]:.1%}",
            points=[(iteration, success) for iteration, success, _, _ in run.points],
            colour=number,
            faint=[run.rollout],
            intervals=[(iteration, low, high) for iteration, _, low, high in run.points],
        )
        for number, run in enumerate(shown)
    ]
    return document(title, [Panel("", series, "share")], width=720)
