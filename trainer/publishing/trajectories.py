"""Finished trajectories of a journal, in the order in which their iterations ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trainer.journal import events, reader
from trainer.publishing.live_groups import live_groups


@dataclass
class RecordedTrajectory:
    """A trajectory with its turns. `score` is its group's score, None in evaluations and before the update."""

    key: str
    attempt: int
    member: int
    group: events.GroupStarted
    turns: list[events.Turn] = field(default_factory=list)
    end: events.TrajectoryFinished | None = None
    score: events.GroupScore | None = None

    @property
    def finished(self) -> events.TrajectoryFinished:
        """The trajectory's end. Yielded trajectories have one."""
        assert self.end is not None
        return self.end


def read_trajectories(journal: Path) -> Iterator[RecordedTrajectory]:
    """Yield finished trajectories that no later attempt superseded; memory contains only unfinished iterations.

    Raises:
        JournalError: a line is not an event.
    """
    live = live_groups(journal)
    playing: dict[str, RecordedTrajectory] = {}
    ended: list[RecordedTrajectory] = []
    attempt = 0
    for event in reader.read(journal):
        match event:
            case events.RunStarted():
                yield from ended
                playing, ended, attempt = {}, [], event.attempt
            case events.GroupStarted() if event.seq in live:
                for member, key in enumerate(event.members):
                    playing[key] = RecordedTrajectory(key, attempt, member, event)
            case events.Turn() if event.trajectory in playing:
                playing[event.trajectory].turns.append(event)
            case events.TrajectoryFinished() if event.trajectory in playing:
                trajectory = playing.pop(event.trajectory)
                trajectory.end = event
                ended.append(trajectory)
            case events.GroupsScored():
                _set_scores(ended, event)
            case events.Metrics() | events.Evaluation():
                split = "train" if isinstance(event, events.Metrics) else "eval"
                over = [t for t in ended if (t.group.split, t.group.iteration) == (split, event.iteration)]
                ended = [t for t in ended if (t.group.split, t.group.iteration) != (split, event.iteration)]
                yield from over
    yield from ended


def _set_scores(ended: Sequence[RecordedTrajectory], event: events.GroupsScored) -> None:
    scores = {score.group: score for score in event.groups}
    for trajectory in ended:
        if trajectory.group.split == "train" and trajectory.group.iteration == event.iteration:
            trajectory.score = scores.get(trajectory.group.group)
