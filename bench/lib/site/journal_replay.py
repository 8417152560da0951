"""Journals of recorded iterations, repeated under new trajectory names."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

TRAJECTORIES = 128
"""Trajectories of one iteration: 8 groups of 16."""


def evenly(seq: int) -> float:
    """Return timestamps at fifty events per second."""
    return 1_760_000_000 + seq / 50


def played_lines(iterations: int, clock: Callable[[int], float] = evenly) -> Iterator[str]:
    """Yield the journal of a run in iteration `iterations` + 1; `clock` maps an event number to its timestamp.

    Four iterations are played; later ones repeat their games under new trajectory names.
    """
    from tests.webapp import recorded_journal
    from trainer.config.run import RunConfig

    config = RunConfig(iterations=iterations + 10)
    config.rollout.groups, config.rollout.group_size = 8, TRAJECTORIES // 8
    iterations_of_events = [
        [
            event.model_dump(exclude_none=True)
            for event in recorded_journal.iteration(config, number, skill=0.3 + 0.15 * number)
        ]
        for number in range(1, min(4, iterations) + 1)
    ]
    started, half = (
        recorded_journal.started(config),
        recorded_journal.iteration(config, iterations + 1, 0.6, stop_after=2),
    )
    first = [started.model_dump(exclude_none=True), recorded_journal.evaluated(0, 0.35).model_dump(exclude_none=True)]
    seq = 0

    def line(event: dict[str, Any]) -> str:
        nonlocal seq
        seq += 1
        return json.dumps(event | {"seq": seq, "time": clock(seq)}) + "\n"

    yield from map(line, first)
    for number in range(1, iterations + 1):
        for event in iterations_of_events[(number - 1) % len(iterations_of_events)]:
            yield line(renamed(event, number))
        if number % 10 == 0:
            yield line(
                recorded_journal.evaluated(number, 0.35 + 0.3 * number / iterations).model_dump(exclude_none=True)
            )
    for last in half:
        yield line(last.model_dump(exclude_none=True))


def renamed(event: dict[str, Any], iteration: int) -> dict[str, Any]:
    """Return the same event, moved to another iteration."""
    changed = dict(event)
    if "iteration" in changed:
        changed["iteration"] = iteration
    if "trajectory" in changed:
        changed["trajectory"] = _renamed(changed["trajectory"], iteration)
    if "members" in changed:
        changed["members"] = [_renamed(key, iteration) for key in changed["members"]]
    return changed


def _renamed(key: str, iteration: int) -> str:
    return f"{iteration}-{key.partition('-')[2]}"
