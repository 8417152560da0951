"""Success of optimal and of random play on a suite's fixed puzzles: the range for judging a policy."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TypeVar

import numpy as np

from envs import registry
from envs.base import TextEnv
from envs.demonstrators import answer_to_another_question, best_action, get_random_player
from envs.pool import EnvironmentPool, Start, as_failure
from envs.sandbox.client import SandboxedEnv
from trainer import timeouts
from trainer.config.run import RunConfig
from trainer.evaluation import suite_runner
from trainer.evaluation.suites import Suite

BEST, RANDOM = "success_best_play", "success_random_play"
"""Suffixes of the metrics' names."""
SECONDS = 60.0
"""Time limit for a suite. In Echoscope's environments 256 puzzles take 1 to 15 s."""
RANDOM_PLAYS = 32
"""Maximum number of random plays of a puzzle."""
_RANDOM_ACTIONS = 60_000
"""Actions of random play from which on no further round of plays begins: long games need fewer plays."""
_SLOW_RANDOM_ACTIONS = 2_000
"""The same where an action is a message to another process, or takes the answer to another question."""

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

    Both may take as many actions as a policy. Optimal play is exact where the solver knows the distance or the chance
    of success; otherwise the solver plays each puzzle once. Random actions play each puzzle up to 32 times, so that
    chance changes their rate on 256 puzzles by at most 0.6 points (one standard error). Without a solver there is no
    optimal play.

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
            RANDOM: referee.random_rate(pool, starts),
            BEST: _rate(map(referee.best_success, _opened(pool, starts))),
        }
    finally:
        pool.close()
    return {f"eval/{suite.name}/{name}": rate for name, rate in rates.items() if rate is not None}


def _opened(pool: EnvironmentPool, starts: Sequence[Start]) -> Iterator[TextEnv]:
    """Yield the environments after their resets. Raises the first error: other resets would take as long to fail."""
    for env in pool.start(starts):
        if isinstance(env, Exception):
            raise ReferencePlayError(str(as_failure(env))) from env
        yield env


def _rate(outcomes: Iterable[float | None]) -> float | None:
    """Return the mean chance of success; None without outcomes or if any is unknown."""
    played = list(outcomes)
    known = [outcome for outcome in played if outcome is not None]
    return fmean(known) if known and len(known) == len(played) else None


def _attempt(call: Callable[..., Result], *arguments: object) -> Result:
    """Return the result of an environment's code, which anyone may have written and which may fail in any way."""
    try:
        return call(*arguments)
    except Exception as error:
        raise ReferencePlayError(str(as_failure(error))) from error


@dataclass
class _Referee:
    """Plays environments under the budgets of a suite."""

    config: RunConfig
    check_stop: Callable[[], None]
    clock: Callable[[], float]
    began: float
    seconds: float
    finished: int = 0
    actions: int = 0
    draws_fast: bool = True

    @property
    def budget(self) -> int:
        rollout = self.config.rollout
        return min(rollout.max_actions, rollout.max_turns * rollout.max_actions_per_turn)

    def random_rate(self, pool: EnvironmentPool, starts: Sequence[Start]) -> float:
        """Return the success rate of random actions, in whole rounds of one play of each puzzle."""
        wins: list[bool] = []
        for play in range(RANDOM_PLAYS):
            rng = np.random.default_rng([play, *itertools.chain(*starts)])
            fresh = [(seed, dynamics + play) for seed, dynamics in starts]
            wins += [self._random_success(env, rng) for env in _opened(pool, fresh)]
            if self.actions >= (_RANDOM_ACTIONS if self.draws_fast else _SLOW_RANDOM_ACTIONS):
                break
        return fmean(wins)

    def _random_success(self, env: TextEnv, rng: np.random.Generator) -> bool:
        choose = _attempt(get_random_player, env)
        self.draws_fast = not isinstance(env, SandboxedEnv) and choose is not answer_to_another_question
        return self._success(env, lambda env: choose(env, rng))

    def best_success(self, env: TextEnv) -> float | None:
        """Return the chance of success of optimal play, or whether the solver had success; None if it has no advice."""
        self._check()
        hint = _attempt(env.hint)
        if hint is None or hint.solvable == "unknown":
            return None
        environment, board = self.config.environment, _attempt(env.board)
        chance = registry.best_chance(environment.name, hint, board, environment.settings, self.budget)
        return float(self._success(env, best_action)) if chance is None else chance

    def _success(self, env: TextEnv, player: Player) -> bool:
        success = False
        for _ in range(self.budget):
            self._check()
            action = _attempt(player, env)
            if action is None:
                break
            _, _, terminated, truncated, info = _attempt(env.step, action)
            self.actions += 1
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
                f"after {self.seconds:.0f} s only {self.finished:,} games on {puzzles} puzzles were over; choose fewer "
                "evaluation.prompts to see it"
            )
