"""Rules and a sample board of each environment, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import urlencode

import envs
from envs.base import EnvSpec, TextEnv
from envs.pool import EnvironmentPool, as_failure
from envs.registry import environment_class
from envs.sokoban.sokoban_env import Sokoban

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
"""Fixed initial states where generating one needs the compiled solver, too slow for a page."""
SAMPLE_TIMEOUT = 15.0  # seconds to render an environment
SAMPLE_START_TIMEOUT = 90.0  # seconds to start one: packages of adapters load many modules


@dataclass(frozen=True)
class EnvironmentSample:
    """An environment with one of its initial states, or the problem that prevents it."""

    name: str
    spec: EnvSpec | None = None
    board: dict[str, Any] | None = None
    text: str = ""
    problem: str = ""
    variant: str = ""
    """Of an adapter: the id of the variant, empty for its default one."""
    choice: str = ""
    """Of an adapter without a default variant: how to choose one."""

    @property
    def variants(self) -> dict[str, str]:
        """Variants of an adapter by id, with a few words about each; empty for other environments."""
        return envs.variants(self.name)

    @property
    def query(self) -> str:
        """Query of the launch form that chooses it."""
        return urlencode({"environment": self.name} | ({"id": self.variant} if self.variant else {}))

    @property
    def about(self) -> str:
        """One sentence about an adapter as a whole."""
        return envs.about(self.name)

    @property
    def preparation(self) -> str:
        """What the page waits for while an environment starts."""
        if issubclass(environment_class(self.name), Sokoban):
            return "Generating the room. Large rooms need a compiler the first time: up to half a minute."
        if self.board and self.board["kind"] == "page":
            return "Loading the catalogue (a few seconds)."
        return "Starting the environment (a few seconds)."


def sample(name: str, variant: str = "") -> EnvironmentSample:
    """A fixed initial state of the environment, or of that variant of an adapter, so that a reload shows the same.

    Third-party environments run in sandboxes here too: one that hangs or crashes is reported as a problem.
    """
    if envs.needs_variant(name) and not variant:
        return EnvironmentSample(name, choice=envs.no_default_variant(name))
    found = _made(name, variant)
    if found.problem and envs.needs_variant(name):  # its server or its data may be there the next time
        _made.cache_clear()
    return found


@lru_cache
def _made(name: str, variant: str) -> EnvironmentSample:
    if name in STARTS:
        env = envs.make(name)
        env.reset(seed=SAMPLE_SEED, options=STARTS[name])
        return _sample(name, env)
    settings = {"id": variant} if variant else {}
    pool = EnvironmentPool(name, settings, step_timeout=SAMPLE_TIMEOUT, start_timeout=SAMPLE_START_TIMEOUT)
    try:
        (started,) = pool.start([(SAMPLE_SEED, SAMPLE_SEED)])
        if isinstance(started, Exception):
            return EnvironmentSample(name, problem=str(as_failure(started)), variant=variant)
        return _sample(name, started, variant)
    except Exception as error:  # noqa: BLE001 third-party code: its error is shown
        return EnvironmentSample(name, problem=str(as_failure(error)), variant=variant)
    finally:
        pool.close()


def _sample(name: str, env: TextEnv, variant: str = "") -> EnvironmentSample:
    return EnvironmentSample(
        name, env.env_spec, env.board().model_dump(exclude_none=True), env.render(), variant=variant
    )
