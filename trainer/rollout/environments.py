"""Opens the environments of a rollout: trusted ones in this process, all others guarded, many of them at a time.

What a failure means for a trajectory is rollout.py's business; how an environment is guarded, envs/sandbox/client.py's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice

import envs
from envs import registry
from envs.base import TextEnv
from envs.sandbox.client import EnvironmentFailure, Guard, GuardedEnv
from trainer.config.run import EnvironmentConfig

_AT_ONCE = 16  # resets under way: few enough that they do not delay each other past a time-out

Start = tuple[int, int]
"""Seed of the initial state, seed of the dynamics."""


def why(error: Exception) -> str:
    """What is recorded of a trajectory whose environment failed."""
    said = str(error) if isinstance(error, EnvironmentFailure) else f"{type(error).__name__}: {error}"
    return f"the environment failed: {said}"


class Worlds:
    """The environments of one configuration. `close` ends what was started beside this process."""

    def __init__(self, config: EnvironmentConfig) -> None:
        self.config = config
        self._guard: Guard | None = None

    def start(self, starts: Sequence[Start]) -> Iterator[TextEnv | Exception]:
        """For each start an environment that was reset, or what went wrong instead; in order."""
        if registry.environment_class(self.config.name).trusted:
            return map(self._here, starts)
        return self._apart(starts)

    def close(self) -> None:
        """End the processes of guarded environments, if there are any. `start` may be called again."""
        if self._guard is not None:
            self._guard.close()
            self._guard = None

    def _here(self, start: Start) -> TextEnv | Exception:
        try:
            env = envs.make(self.config.name, self.config.settings)
            env.reset(seed=start[0], options={"dynamics_seed": start[1]})
        except Exception as error:  # noqa: BLE001 what an environment raises ends its trajectory, and is told there
            return error
        return env

    def _apart(self, starts: Sequence[Start]) -> Iterator[TextEnv | Exception]:
        if self._guard is None:
            config = self.config
            self._guard = Guard(
                config.name, config.settings, step_timeout=config.step_timeout, start_timeout=config.start_timeout
            )
        coming = map(self._begin, [self._guard] * len(starts), starts)
        under_way = deque(islice(coming, _AT_ONCE))
        while under_way:
            env = under_way.popleft()
            yield _end(env)
            under_way.extend(islice(coming, 1))

    @staticmethod
    def _begin(guard: Guard, start: Start) -> GuardedEnv | Exception:
        try:
            env = guard.make()
        except EnvironmentFailure as error:
            return error
        env.begin_reset(seed=start[0], options={"dynamics_seed": start[1]})
        return env


def _end(env: GuardedEnv | Exception) -> TextEnv | Exception:
    if isinstance(env, Exception):
        return env
    try:
        env.end_reset()
    except EnvironmentFailure as error:
        env.close()
        return error
    return env
