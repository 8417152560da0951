"""Environments as pages show them: their rules and a sample board, or why there is none. Pages are in webapp.play."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import envs
from envs.base import EnvSpec, TextEnv
from envs.pool import EnvironmentPool, failure_message

SAMPLE_SEED = 7
BOXOBAN = """
##########
#      ###
#      ###
#   .$ ###
# .  $  ##
#  $  @  #
# #      #
###. $ . #
#### #   #
##########
"""
STARTS = {"Boxoban": {"room": BOXOBAN}}
"""Given starts: drawing such a room wakes the compiled solver, which a page cannot wait for."""
PATIENCE = 15.0  # seconds that an environment may take to show itself


@dataclass(frozen=True)
class Sample:
    """An environment with one of its initial states, or the problem that keeps it from showing one."""

    name: str
    spec: EnvSpec | None = None
    board: dict[str, Any] | None = None
    text: str = ""
    problem: str = ""


@lru_cache
def sample(name: str) -> Sample:
    """Always the same initial state, so that the page does not change when it is loaded again.

    Environments of strangers run in processes of their own here too: one that hangs or crashes is told of, not shown.
    """
    if name in STARTS:
        env = envs.make(name)
        env.reset(seed=SAMPLE_SEED, options=STARTS[name])
        return _sample(name, env)
    pool = EnvironmentPool(name, {}, step_timeout=PATIENCE, start_timeout=PATIENCE)
    try:
        (started,) = pool.start([(SAMPLE_SEED, SAMPLE_SEED)])
        if isinstance(started, Exception):
            return Sample(name, problem=failure_message(started))
        return _sample(name, started)
    except Exception as error:  # noqa: BLE001 an environment is anybody's code, and what it raises is shown
        return Sample(name, problem=failure_message(error))
    finally:
        pool.close()


def _sample(name: str, env: TextEnv) -> Sample:
    return Sample(name, env.env_spec, env.board().model_dump(exclude_none=True), env.render())
