"""Success of the best and of random play on a suite's fixed puzzles: the range within which a policy can be judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from statistics import fmean

import numpy as np

from envs.base import TextEnv
from envs.pool import EnvironmentPool, Start
from trainer.config.run import RunConfig
from trainer.evaluation import suite_runner
from trainer.evaluation.suites import Suite
from trainer.imitation.demonstrators import best_action, demonstrator_of

BEST, RANDOM = "success_best_play", "success_random_play"
"""Last parts of the metrics' names."""

Player = Callable[[TextEnv], str | None]
"""Chooses the next action; None gives up."""


def reference_success(suite: Suite) -> dict[str, float]:
    """Success rates of the solver and of a player of random actions on the suite's puzzles, as metrics.

    Both may take as many actions as a policy, and play each puzzle once. Without a solver there is no best play, and
    in an environment that fails there is nothing to compare with.
    """
    config, plans = suite.config, suite_runner.group_plans(suite.config, 0, suite.number)
    starts = [(plan.seed, plan.dynamics_seeds[0]) for plan in plans]
    pool = EnvironmentPool(
        config.environment.name,
        config.environment.settings,
        step_timeout=config.environment.step_timeout,
        start_timeout=config.environment.start_timeout,
    )
    try:
        rates = {
            RANDOM: _rate(map(partial(_random_success, config), _opened(pool, starts), starts)),
            BEST: _rate(map(partial(_best_success, config), _opened(pool, starts))),
        }
    except Exception:  # noqa: BLE001 the evaluation does not depend on it, and its own play reports the error
        return {}
    finally:
        pool.close()
    return {f"eval/{suite.name}/{name}": rate for name, rate in rates.items() if rate is not None}


def _opened(pool: EnvironmentPool, starts: Sequence[Start]) -> Iterator[TextEnv]:
    """The environments after their resets. Raises the first error: others would take as long to come."""
    for env in pool.start(starts):
        if isinstance(env, Exception):
            raise env
        yield env


def _rate(outcomes: Iterable[bool | None]) -> float | None:
    """Share of successes; None without outcomes or where any is unknown."""
    played = list(outcomes)
    known = [outcome for outcome in played if outcome is not None]
    return fmean(known) if known and len(known) == len(played) else None


def _budget(config: RunConfig) -> int:
    rollout = config.rollout
    return min(rollout.max_actions, rollout.max_turns * rollout.max_actions_per_turn)


def _success(env: TextEnv, player: Player, budget: int) -> bool:
    for _ in range(budget):
        action = player(env)
        if action is None:
            return False
        _, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            return bool(info["success"])
    return False


def _random_success(config: RunConfig, env: TextEnv, start: Start) -> bool:
    player, rng = demonstrator_of(env), np.random.default_rng(start)
    return _success(env, lambda env: player.mistake(env, rng), _budget(config))


def _best_success(config: RunConfig, env: TextEnv) -> bool | None:
    hint = env.hint()
    if hint is None or hint.solvable == "unknown":
        return None
    if hint.distance is not None:  # nothing is random: no need to play it
        return hint.distance <= _budget(config)
    return _success(env, best_action, _budget(config))
