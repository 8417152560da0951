"""Trajectories assembled from the events of the journal, for trackers that take whole dialogues."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from trainer.journal.events import GroupStarted, TrajectoryFinished, Turn


@dataclass
class TrackedDialogue:
    """A trajectory with its initial state and the turns so far."""

    group: GroupStarted
    member: int
    turns: list[Turn] = field(default_factory=list)

    @property
    def messages(self) -> list[dict[str, str]]:
        """Return states and responses as the messages of a chat."""
        said: list[dict[str, str]] = []
        for turn in self.turns:
            said.append({"role": "user", "content": self.first_message(turn)})
            said.append({"role": "assistant", "content": turn.response})
        return said

    def first_message(self, turn: Turn) -> str:
        """Return the user's message of a turn: its state, in the first turn preceded by the task."""
        return f"{self.group.prompt}\n\n{turn.state}" if turn.turn == 0 else turn.state

    def about(self, end: TrajectoryFinished) -> dict[str, Any]:
        """Describe the trajectory: its place in the run, and its end."""
        group = self.group
        return {
            "iteration": group.iteration,
            "split": group.split,
            "suite": group.suite,
            "group": group.group,
            "member": self.member,
            "seed": group.seed,
            "trajectory": end.trajectory,
            "end": end.end,
        }


class Dialogues:
    """Collects the events of trajectories that are being played."""

    def __init__(self) -> None:
        self._playing: dict[str, TrackedDialogue] = {}

    def add(self, event: GroupStarted | Turn | TrajectoryFinished) -> tuple[TrackedDialogue, TrajectoryFinished] | None:
        """Take the next event. The end of a trajectory returns its dialogue and that event."""
        match event:
            case GroupStarted():
                self._playing |= {key: TrackedDialogue(event, member) for member, key in enumerate(event.members)}
            case Turn() if event.trajectory in self._playing:
                self._playing[event.trajectory].turns.append(event)
            case TrajectoryFinished() if event.trajectory in self._playing:
                return self._playing.pop(event.trajectory), event
        return None

    def clear(self) -> None:
        """Drop trajectories that will not end any more."""
        self._playing.clear()


class SampledDialogues(Dialogues):
    """The first trajectories to end in each iteration and evaluation, up to a limit.

    For services that keep dialogues in addition to metrics and are not made for all dialogues of a run.
    """

    LIMIT = 16

    def __init__(self) -> None:
        super().__init__()
        self._taken: Counter[tuple[int, str, str]] = Counter()

    def add(self, event: GroupStarted | Turn | TrajectoryFinished) -> tuple[TrackedDialogue, TrajectoryFinished] | None:
        finished = super().add(event)
        if finished is None:
            return None
        group = finished[0].group
        key = (group.iteration, group.split, group.suite or "")
        self._taken[key] += 1
        return finished if self._taken[key] <= self.LIMIT else None
