"""What all answers to questions need: who asked, their progress, and rollouts of branches."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trainer.branching.player import BranchPlayer, Play
from trainer.branching.starting_points import StartingPoints
from trainer.engines.sampler import SampledResponse
from trainer.journal.branches import Advanced, Answer, Partial, Question, Restored
from trainer.rollout.runner import EnvironmentsFailedError, GroupPlan, Interrupted, ListenerFactory
from trainer.rollout.token_stream import TokenStreamListener
from trainer.rollout.trajectory import Trajectory

_LIVE_INTERVAL = 0.01  # seconds between the partial responses of a branch, times the number of branches
_MIN_INTERVAL = 0.08


@dataclass(frozen=True)
class Asker:
    """Who asked: receives the answers, and may lose interest.

    Attributes:
        answer: receives answers as they occur.
        stop: polled while playing; True cancels the question.
        live: whether partial responses are of interest.
    """

    answer: Callable[[Answer], None]
    stop: Callable[[], bool] = lambda: False
    live: bool = False


def played(
    player: BranchPlayer, points: StartingPoints, plans: Sequence[GroupPlan], temperature: float, play: Play
) -> list[Trajectory]:
    """Play branches to their ends. Returns their trajectories, failed ones as well."""
    try:
        return player.play(points, plans, temperature, play)
    except EnvironmentsFailedError as error:
        return error.trajectories


def temperature_of(question: Question, points: StartingPoints) -> float:
    """Return the temperature at which a question samples."""
    return points.attempt.temperature if question.temperature is None else question.temperature


def restored(identity: str, points: StartingPoints, turn: int, beginning: SampledResponse | None = None) -> Restored:
    """Return the answer that the position before a turn is known, with the beginning of the response there."""
    text = points.bound.decode(beginning.ids) if beginning else ""
    return Restored(id=identity, turn=turn, tokens=points.tokens, beginning=text)


def listener(identity: str, numbers: dict[str, int], points: StartingPoints, asker: Asker) -> ListenerFactory:
    """Return the factory of listeners that send the partial responses of these branches, and notice a stop."""
    live = _LiveResponses(identity, numbers, asker)
    return lambda names, turn_of: TokenStreamListener(live, points.bound, names, turn_of)


class FinishedBranches:
    """Answers with the number of finished branches when it changes.

    Attributes:
        before: branches of earlier rollouts of the same question.
    """

    def __init__(self, identity: str, total: int, asker: Asker) -> None:
        self.identity, self.total, self.asker = identity, total, asker
        self.before = self._done = 0

    def __call__(self, done: int) -> None:
        if self.before + done != self._done:
            self._done = self.before + done
            self.asker.answer(Advanced(id=self.identity, done=self._done, total=self.total))


class _LiveResponses:
    """The partial responses of branches, as answers. See `trainer.rollout.token_stream.PartialResponses`."""

    def __init__(self, identity: str, numbers: dict[str, int], asker: Asker) -> None:
        self.identity, self.numbers, self.asker = identity, numbers, asker
        self.watched = frozenset(numbers)
        self._next = 0.0

    def due(self) -> bool:
        """True if the next partial responses may be sent. Raises Interrupted if the asker stopped."""
        if self.asker.stop():
            raise Interrupted
        if not (self.asker.live and self.watched) or time.monotonic() < self._next:
            return False
        self._next = time.monotonic() + max(_MIN_INTERVAL, _LIVE_INTERVAL * len(self.watched))
        return True

    def send(self, trajectory: str, turn: int, text: str) -> None:
        """Send the response of a turn so far."""
        branch = self.numbers[trajectory]
        self.asker.answer(Partial(id=self.identity, branch=branch, turn=turn, text=text))
