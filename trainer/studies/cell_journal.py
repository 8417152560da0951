"""Outcomes of cells, read from their journals."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import fmean

from trainer.journal import events, reader
from trainer.journal.protocol import JOURNAL_FILE
from trainer.studies.grid import Cell, read_cost
from trainer.studies.outcomes import EvaluationResult, Outcome
from trainer.studies.reuse import study_folder


def read(cell: Cell) -> Outcome:
    """Read a cell's journal; if an iteration was played twice, after a resume or a rewind, the last one counts."""
    outcome = Outcome(cell.environment, cell.arm.name, cell.seed, suite=cell.config.environment.name)
    reading = _Reading(outcome)
    for event in reader.read(cell.folder / JOURNAL_FILE):
        reading.add(event)
    outcome.alarms = [(alarm.iteration, alarm.state) for alarm in reading.alarms]
    cost = read_cost(cell.folder)
    outcome.seconds, outcome.megabytes = cost.seconds, cost.megabytes
    outcome.timed_in = (str(study_folder(cell).resolve()), *cost.sessions)
    return outcome


@dataclass
class _Reading:
    """State of a journal that is being read."""

    outcome: Outcome
    alarms: list[events.Alarm] = field(default_factory=list)
    undone: set[int] = field(default_factory=set)
    """Sequence numbers of alarms that a rewind took back, which later attempts do not repeat."""
    rewinding: bool = False
    puzzles: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Trajectory of the evaluation in progress → suite and number of its puzzle."""
    played: dict[tuple[str, int], dict[str, bool]] = field(default_factory=dict)

    def add(self, event: events.AnyEvent) -> None:
        outcome = self.outcome
        match event:
            case events.RunStarted():
                outcome.trains = event.iterations > 0
                self._drop_superseded(event)
            case events.Metrics():
                outcome.iterations = max(outcome.iterations, event.iteration)
                for name, value in event.values.items():
                    outcome.curves.setdefault(name, {})[event.iteration] = value
            case events.GroupStarted(split="eval"):
                puzzle = (event.suite or outcome.suite, event.group)
                self.puzzles |= dict.fromkeys(event.members, puzzle)
            case events.TrajectoryFinished() if event.trajectory in self.puzzles:
                puzzle = self.puzzles[event.trajectory]
                self.played.setdefault(puzzle, {})[event.trajectory] = bool(event.success)
            case events.Evaluation():
                result = EvaluationResult(
                    event.iteration,
                    event.prompts,
                    event.success,
                    event.success_low,
                    event.success_high,
                    self._take_puzzles(event.suite),
                )
                outcome.evaluations.setdefault(event.suite, []).append(result)
            case events.Alarm():
                self.alarms.append(event)
            case events.Rewound():
                outcome.rewinds += 1
                self.rewinding = True
                self.undone |= {alarm.seq for alarm in self.alarms if alarm.iteration > event.to_iteration}

    def _take_puzzles(self, suite: str) -> tuple[float, ...]:
        """Return the shares of successes in the evaluation of a suite that just ended."""
        puzzles = sorted(puzzle for puzzle in self.played if puzzle[0] == suite)
        self.puzzles = {name: puzzle for name, puzzle in self.puzzles.items() if puzzle[0] != suite}
        return tuple(fmean(self.played.pop(puzzle).values()) for puzzle in puzzles)

    def _drop_superseded(self, start: events.RunStarted) -> None:
        """Drop the results that the new attempt supersedes."""
        outcome = self.outcome
        for name, curve in outcome.curves.items():
            superseded = {iteration: value for iteration, value in curve.items() if iteration > start.from_iteration}
            if self.rewinding:
                outcome.taken_back[name] = outcome.taken_back.get(name, 0.0) + sum(superseded.values())
            for iteration in superseded:
                del curve[iteration]
        self.rewinding = False
        for suite, evaluations in outcome.evaluations.items():
            outcome.evaluations[suite] = [
                evaluation for evaluation in evaluations if evaluation.iteration <= start.evaluated_iteration
            ]
        self.alarms = [
            alarm for alarm in self.alarms if alarm.iteration <= start.from_iteration or alarm.seq in self.undone
        ]
        self.puzzles, self.played = {}, {}
