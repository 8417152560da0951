"""Recorder of a finished run for the replay of the Echo Trap, from its journal."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from trainer.journal import events
from trainer.journal.protocol import JOURNAL_FILE
from trainer.journal.reader import read_lines
from webapp.explorer.trap_replay import CODES, METRICS, ReplayAlarm, ReplayedRun
from webapp.runs.untrusted_folder import UntrustedFolder

Kind = TypeVar("Kind", bound=events.Event)
NEEDED = (
    events.RunStarted,
    events.GroupStarted,
    events.Turn,
    events.TrajectoryFinished,
    events.GroupsScored,
    events.Metrics,
    events.Evaluation,
    events.Alarm,
)


class NotReplayable(ValueError):
    """The run cannot be recorded. The message gives the reason."""


class _Journal:
    """The needed events of a journal by their type."""

    def __init__(self, folder: Path) -> None:
        self._events: dict[type[events.Event], list[Any]] = defaultdict(list)
        with UntrustedFolder(folder).open(JOURNAL_FILE) as lines:
            for event in read_lines(lines):
                if isinstance(event, NEEDED):
                    self._events[type(event)].append(event)

    def all(self, kind: type[Kind]) -> Sequence[Kind]:
        """Return the events of a type, in order."""
        return self._events[kind]


def record_run(folder: Path, name: str) -> ReplayedRun:
    """Record a run that trained without interruption, with one turn per attempt. Raises NotReplayable."""
    journal = _Journal(folder)
    started = _only_start(journal)
    metrics = _metrics(journal)
    evaluations = {event.iteration: round(event.success, 4) for event in journal.all(events.Evaluation)}
    if not metrics or not evaluations:
        raise NotReplayable("it contains no evaluated iteration: set evaluation.every and train it to its end")
    codes: dict[str, int] = {}
    attempts = _attempts(journal, codes)
    kept = {event.iteration: _kept(event) for event in journal.all(events.GroupsScored)}
    numbers = sorted(metrics)
    return ReplayedRun(
        name,
        int(started.config["seed"]),
        int(started.config["rollout"]["group_size"]),
        [json.loads(text) for text in codes],
        [attempts[number] for number in numbers],
        [kept[number] for number in numbers],
        {metric: [round(metrics[number][metric], 4) for number in numbers] for metric in METRICS},
        sorted(evaluations.items()),
        [ReplayAlarm(event.iteration, event.state, event.message) for event in journal.all(events.Alarm)],
    )


def _metrics(journal: _Journal) -> Mapping[int, Mapping[str, float]]:
    """Return metrics of the trained iterations; an evaluation has a separate event."""
    values: dict[int, dict[str, float]] = defaultdict(dict)
    for event in journal.all(events.Metrics):
        values[event.iteration] |= event.values
    return {number: named for number, named in values.items() if all(metric in named for metric in METRICS)}


def _only_start(journal: _Journal) -> events.RunStarted:
    starts = journal.all(events.RunStarted)
    if len(starts) != 1:
        raise NotReplayable(f"it started {len(starts)} times: train it again without interruption or rewind")
    if any(turn.turn > 0 for turn in journal.all(events.Turn)):
        raise NotReplayable("its attempts have several turns: only those of one are replayed")
    return starts[0]


def _attempts(journal: _Journal, codes: dict[str, int]) -> Mapping[int, str]:
    """Return the characters of each iteration's attempts, group by group; new attempts are added to `codes`."""
    turns = {event.trajectory: event for event in journal.all(events.Turn)}
    finished = {event.trajectory: event for event in journal.all(events.TrajectoryFinished)}
    iterations: dict[int, list[events.GroupStarted]] = defaultdict(list)
    for event in journal.all(events.GroupStarted):
        if event.split == "train":
            iterations[event.iteration].append(event)
    return {
        number: "".join(
            _code(codes, turns[member], finished[member])
            for group in sorted(groups, key=lambda group: group.group)
            for member in group.members
            if member in finished
        )
        for number, groups in iterations.items()
    }


def _code(codes: dict[str, int], turn: events.Turn, finished: events.TrajectoryFinished) -> str:
    boards = [action.board for action in turn.actions if action.board is not None]
    attempt = {
        "before": turn.board.model_dump(mode="json", exclude_none=True) if turn.board else None,
        "after": boards[-1].model_dump(mode="json", exclude_none=True) if boards else None,
        "thought": turn.thought,
        "answer": turn.answer,
        "reward": finished.total_reward,
        "success": finished.success,
    }
    code = codes.setdefault(json.dumps(attempt, sort_keys=True), len(codes))
    if code >= len(CODES):
        raise NotReplayable(f"it has more than {len(CODES)} different attempts")
    return CODES[code]


def _kept(event: events.GroupsScored) -> str:
    return "".join("1" if score.kept else "0" for score in sorted(event.groups, key=lambda score: score.group))
