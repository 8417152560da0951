"""Success of optimal and of random play on a suite's fixed puzzles: the range for judging a policy."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TypeVar

import numpy as np

from envs.base import TextEnv
from envs.demonstrators import best_action, find_demonstrator
from envs.pool import EnvironmentPool, Start, failure_message
from trainer import timeouts
from trainer.config.run import RunConfig
from trainer.evaluation import suite_runner
from trainer.evaluation.suites import Suite

BEST, RANDOM = "success_best_play", "success_random_play"
"""Suffixes of the metrics' names."""
SECONDS = 60.0
"""Time limit for a suite. In Echoscope's environments 256 puzzles take 1 to 10 s."""

Player = Callable[[TextEnv], str | None]
"""Chooses the next action; None to give up."""
Result = TypeVar("Result")


class ReferencePlayError(Exception):
    """A suite has no reference play; the message gives users the reason in a sentence."""


def reference_success(
    suite: Suite,
    check_stop: Callable[[], None] = lambda: None,
    *,
    seconds: float = SECONDS,
    clock: Callable[[], float] = time.monotonic,
) -> dict[str, float]:
    """Return the success rates of the solver and of random actions on the suite's puzzles, as metrics.

    Both may take as many actions as a policy, and play each puzzle once. Without a solver there is no optimal play.

    Args:
        check_stop: called before every action; its exceptions end the play.
        seconds: time for both players together.
        clock: clock in seconds.
    Raises:
        ReferencePlayError: the environment or its solver failed, or the time was used up.
    """
    config, plans = suite.config, suite_runner.group_plans(suite.config, 0, suite.number)
    starts = [(plan.seed, plan.dynamics_seeds[0]) for plan in plans]
    pool = EnvironmentPool(
        config.environment.name,
        config.environment.settings,
        step_timeout=timeouts.ENVIRONMENT_STEP.seconds,
        start_timeout=timeouts.ENVIRONMENT_START.seconds,
    )
    referee = _Referee(config, check_stop, clock, began=clock(), seconds=seconds)
    try:
        rates = {
            RANDOM: _rate(map(referee.random_success, _opened(pool, starts), starts)),
            BEST: _rate(map(referee.best_success, _opened(pool, starts))),
        }
    finally:
        pool.close()
    return {f"eval/{suite.name}/{name}": rate for name, rate in rates.items() if rate is not None}


def _opened(pool: EnvironmentPool, starts: Sequence[Start]) -> Iterator[TextEnv]:
    """Yield the environments after their resets. Raises the first error: other resets would take as long to fail."""
    for env in pool.start(starts):
        if isinstance(env, Exception):
            raise ReferencePlayError(failure_message(env)) from env
        yield env


def _rate(outcomes: Iterable[bool | None]) -> float | None:
    """Return the share of successes; None without outcomes or if any is unknown."""
    played = list(outcomes)
    known = [outcome for outcome in played if outcome is not None]
    return fmean(known) if known and len(known) == len(played) else None


def _attempt(call: Callable[..., Result], *arguments: object) -> Result:
    """Return the result of an environment's code, which anyone may have written and which may fail in any way."""
    try:
        return call(*arguments)
    except Exception as error:
        raise ReferencePlayError(failure_message(error)) from error


@dataclass
class _Referee:
    """Plays environments under the budgets of a suite."""

    config: RunConfig
    check_stop: Callable[[], None]
    clock: Callable[[], float]
    began: float
    seconds: float
    finished: int = 0

    @property
    def budget(self) -> int:
        rollout = self.config.rollout
        return min(rollout.max_actions, rollout.max_turns * rollout.max_actions_per_turn)

    def random_success(self, env: TextEnv, start: Start) -> bool:
        player, rng = _attempt(find_demonstrator, env), np.random.default_rng(start)
        return self._success(env, lambda env: player.mistake(env, rng))

    def best_success(self, env: TextEnv) -> bool | None:
        self._check()
        hint = _attempt(env.hint)
        if hint is None or hint.solvable == "unknown":
            return None
        if hint.distance is not None:  # nothing is random: no need to play it
            return hint.distance <= self.budget
        return self._success(env, best_action)

    def _success(self, env: TextEnv, player: Player) -> bool:
        success = False
        for _ in range(self.budget):
            self._check()
            action = _attempt(player, env)
            if action is None:
                break
            _, _, terminated, truncated, info = _attempt(env.step, action)
            if terminated or truncated:
                success = bool(info["success"])
                break
        self.finished += 1
        return success

    def _check(self) -> None:
        self.check_stop()
        if self.clock() - self.began > self.seconds:
            puzzles = self.config.evaluation.prompts
            raise ReferencePlayError(
                f"after {self.seconds:.0f} s only {self.finished} of {2 * puzzles} games were over; choose fewer "
                "evaluation.prompts to see it"
            )
