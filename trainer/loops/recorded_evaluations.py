"""Recorded evaluations of a run folder: all attempts of one suite after one iteration."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from trainer.config.run import RunConfig
from trainer.evaluation.suites import get_suites
from trainer.journal.events import Evaluation, GroupStarted, RunStarted
from trainer.journal.reader import parse_line
from trainer.loops.recorded_attempts import (
    RecordedAttempt,
    RecordingError,
    journal_lines,
    last_settings,
    own_settings,
)

_START, _GROUP, _RESULT = b'"type":"run_started"', b'"type":"group_started"', b'"type":"evaluation"'
_TRAJECTORY = re.compile(rb'"trajectory":"([^"\\]*)"')


@dataclass(frozen=True)
class RecordedEvaluation:
    """An evaluation as it is recorded.

    Attributes:
        attempts: those that have ended and whose environment did not fail, in the order of their puzzles.
    """

    iteration: int
    suite: str
    attempts: list[RecordedAttempt]

    @property
    def lost(self) -> list[RecordedAttempt]:
        """The attempts that were not solved."""
        return [attempt for attempt in self.attempts if attempt.finished and attempt.finished.success is False]


def find_evaluation(folder: Path, iteration: int | None = None, suite: str | None = None) -> RecordedEvaluation:
    """Read the attempts of an evaluation.

    Args:
        iteration: finished iterations at the evaluation; None: the newest one that has a result.
        suite: name of the suite; None: the suite of the run's own environment.
    Raises:
        RecordingError: the folder has no such evaluation, or another trainer recorded it.
        JournalError: the journal is broken.
    """
    suite = get_suites(last_settings(folder))[0].name if suite is None else suite
    if iteration is None:
        iteration = _newest(folder, suite)
    attempts = _read_attempts(folder, iteration, suite)
    whole = [attempt for attempt in attempts if attempt.finished and attempt.turns and not attempt.failed]
    if not whole:
        raise RecordingError(
            f"the journal holds no finished attempt of an evaluation in {suite} after iteration {iteration}"
        )
    return RecordedEvaluation(iteration, suite, sorted(whole, key=lambda attempt: attempt.trajectory))


def _newest(folder: Path, suite: str) -> int:
    newest, suites = None, set[str]()
    for number, line in journal_lines(folder):
        if _RESULT in line and isinstance(event := parse_line(line, number), Evaluation):
            suites.add(event.suite)
            newest = event.iteration if event.suite == suite else newest
    if newest is None:
        known = f"; its suites are {', '.join(sorted(suites))}" if suites else ""
        raise RecordingError(f"this run was not evaluated in {suite}{known}")
    return newest


def _read_attempts(folder: Path, iteration: int, suite: str) -> list[RecordedAttempt]:
    config: RunConfig | None = None
    attempts: dict[str, RecordedAttempt] = {}
    for number, line in journal_lines(folder):
        if _START in line and isinstance(started := parse_line(line, number), RunStarted):
            config = own_settings(started)
        elif _GROUP in line and config is not None:
            group = parse_line(line, number)
            if isinstance(group, GroupStarted) and _place(group) == (iteration, suite):
                attempts |= {member: RecordedAttempt(member, config, group) for member in group.members}
        elif (named := _TRAJECTORY.search(line)) and (attempt := attempts.get(named[1].decode(errors="replace"))):
            attempt.take(parse_line(line, number))
    return list(attempts.values())


def _place(group: GroupStarted) -> tuple[int, str | None] | None:
    return (group.iteration, group.suite) if group.split == "eval" else None
