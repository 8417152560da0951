"""Ledger of a request's events: each event is passed on once, even if a lost group is played again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from trainer.journal.events import Event, GroupStarted, TrajectoryFinished, Turn


@dataclass
class _TrajectoryRecord:
    """Events already passed on for a trajectory: responses by turn, sums, and whether it has ended."""

    responses: list[str] = field(default_factory=list)
    reward: float = 0.0
    actions: int = 0
    tokens: int = 0
    ended: bool = False

    def add(self, turn: Turn) -> None:
        self.responses.append(turn.response)
        self.reward += turn.reward
        self.actions += sum(action.status == "executed" for action in turn.actions)
        self.tokens += turn.tokens or 0


class EventLedger:
    """Passes on the events of one rollout request.

    Another actor replays the groups of a lost actor from the same seeds, with the same events: events that were passed
    on before are dropped.

    Args:
        emit: receives events.
        notify: receives a message if a replayed trajectory takes another course.
    """

    def __init__(self, emit: Callable[..., None], notify: Callable[[str], None]) -> None:
        self._emit, self._notify = emit, notify
        self._members: dict[int, list[str]] = {}  # by group that was passed on
        self._records: dict[str, _TrajectoryRecord] = {}

    def receive(self, events: Iterable[Event]) -> None:
        """Pass on new events in one write."""
        self._emit(*[event for event in events if self._is_new(event)])

    def interrupt(self) -> None:
        """Close the open trajectories, because a stop was requested."""
        self._close(self._records)

    def close_groups(self, groups: set[int]) -> set[int]:
        """Close the open trajectories of groups that are not continued. Returns the groups that had begun."""
        begun = groups & self._members.keys()
        self._close([name for group in sorted(begun) for name in self._members[group]])
        return begun

    def _close(self, names: Iterable[str]) -> None:
        closing = []
        for name in names:
            record = self._records[name]
            if not record.ended:
                record.ended = True
                closing.append(
                    TrajectoryFinished(
                        trajectory=name,
                        success=False,
                        end="interrupted",
                        total_reward=record.reward,
                        turns=len(record.responses),
                        actions=record.actions,
                        tokens=record.tokens,
                        lost_at=None,
                        error=None,
                    )
                )
        self._emit(*closing)

    def _is_new(self, event: Event) -> bool:
        match event:
            case GroupStarted():
                return self._starts(event)
            case Turn():
                return self._continues(event)
            case TrajectoryFinished():
                return self._ends(event)
            case _:
                return True

    def _starts(self, event: GroupStarted) -> bool:
        if event.group in self._members:
            return False
        self._members[event.group] = list(event.members)
        self._records |= {name: _TrajectoryRecord() for name in event.members}
        return True

    def _continues(self, event: Turn) -> bool:
        record = self._records[event.trajectory]
        if event.turn == len(record.responses):
            record.add(event)
            return True
        if record.responses[event.turn] != event.response:
            self._notify(
                f"Trajectory {event.trajectory} took another course when it was played again: the nodes of the cluster "
                "compute differently. The journal keeps the first version of its first turns."
            )
        return False

    def _ends(self, event: TrajectoryFinished) -> bool:
        record = self._records[event.trajectory]
        behind = event.turns < len(record.responses)  # interrupted while it was played again: `interrupt` closes it
        if record.ended or (event.end == "interrupted" and behind):
            return False
        record.ended = True
        return True
