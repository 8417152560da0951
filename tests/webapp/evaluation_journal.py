"""Journal of evaluations whose puzzles need different numbers of moves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from envs.base import Hint
from tests.webapp.explorer.test_run_result import evaluated
from trainer.journal import events as journal


def evaluations(solved: Mapping[int, str], distances: Sequence[int | None]) -> Iterator[journal.Event]:
    """An evaluation for each iteration with a character per puzzle, + for solved.

    Args:
        distances: moves that the solver needs for each puzzle; None where it does not know.
    """
    for iteration, signs in solved.items():
        for event in evaluated(iteration, signs):
            if isinstance(event, journal.GroupStarted):
                event = event.model_copy(update={"hint": Hint(actions=["Right"], distance=distances[event.group])})
            yield event
