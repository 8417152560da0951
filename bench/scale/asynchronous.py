"""Time of a run whose rollouts are played during updates, compared with a run in which both alternate."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

from bench.scale.simulated_pool import SimulatedPool, request
from trainer.config.run import RunConfig
from trainer.loops.session import RunSession
from trainer.loops.stages.rollouts_ahead import RolloutsAhead

_REPORT_SECONDS = 0.2
"""Seconds between two reports of an update, during which the pool works."""


@dataclass(frozen=True)
class AsynchronyResult:
    """Seconds of both modes for the same number of iterations; rollout and update take equally long."""

    iterations: int
    update_seconds: float
    synchronous: float
    asynchronous: float

    @property
    def share(self) -> float:
        """Return asynchronous over synchronous time."""
        return self.asynchronous / self.synchronous


def measure(pool: SimulatedPool, settings: RunConfig, actors: int, first: int, scale: float) -> AsynchronyResult:
    """Run all iterations of the settings in both modes.

    Args:
        first: an iteration number that the pool has not played yet; numbering continues from there.
        scale: factor on the latencies.
    """
    pool.use(actors, scale)
    groups = 2 * actors
    rehearsals = [_seconds(lambda n=n: pool.play(request(settings, first + n, groups), _ignore)) for n in range(2)]
    update = statistics.mean(rehearsals)
    synchronous = _seconds(lambda: _take_turns(pool, settings, first + 2, groups, update))
    asynchronous = _seconds(lambda: _overlap(pool, settings, update))
    return AsynchronyResult(settings.iterations, update, synchronous, asynchronous)


def _take_turns(pool: SimulatedPool, settings: RunConfig, first: int, groups: int, update: float) -> None:
    for number in range(settings.iterations):
        pool.play(request(settings, first + number, groups), _ignore)
        time.sleep(update)


def _overlap(pool: SimulatedPool, settings: RunConfig, update: float) -> None:
    session: Any = SimpleNamespace(config=settings, progress=SimpleNamespace(iteration=0))
    ahead = RolloutsAhead(cast(RunSession, session), pool)
    report = ahead.pumping(lambda progress: None)
    for iteration in range(1, settings.iterations + 1):
        ahead.take(iteration, _ignore)
        session.progress.iteration = iteration
        end = time.monotonic() + update
        while (rest := end - time.monotonic()) > 0:
            report(cast(Any, None))
            time.sleep(min(_REPORT_SECONDS, max(0.0, rest)))
    pool.abandon()


def _seconds(action: Any) -> float:
    began = time.monotonic()
    action()
    return time.monotonic() - began


def _ignore(done: int, tokens: int) -> None:
    """Show no progress."""
