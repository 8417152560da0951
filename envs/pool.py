"""Environment pool: opens many environments of one kind, trusted ones in this process, the others in sandboxes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from envs import registry
from envs.base import TextEnv
from envs.sandbox.client import EnvironmentFailure, Sandbox, SandboxedEnv

_AT_ONCE = 16  # resets under way: few enough that they do not delay each other past a time-out

Start = tuple[int, int]
"""Seed of the initial state, seed of the dynamics."""


def failure_message(error: Exception) -> str:
    """The sentence recorded for a trajectory whose environment failed."""
    reason = str(error) if isinstance(error, EnvironmentFailure) else f"{type(error).__name__}: {error}"
    return f"the environment failed: {reason}"


class EnvironmentPool:
    """Environments of one name and settings. `close` ends the sandbox processes that `start` began.

    Args:
        name: a registered environment.
        settings: its settings, as the registry's settings model reads them.
        step_timeout, start_timeout: seconds that a sandboxed environment may take for a step and for a reset.
    """

    def __init__(self, name: str, settings: Mapping[str, Any], *, step_timeout: float, start_timeout: float) -> None:
        self.name, self.settings = name, dict(settings)
        self.step_timeout, self.start_timeout = step_timeout, start_timeout
        self._guard: Sandbox | None = None

    def start(self, starts: Sequence[Start]) -> Iterator[TextEnv | Exception]:
        """For each start an environment that was reset, or what went wrong instead; in order."""
        if registry.environment_class(self.name).trusted:
            return map(self._in_process, starts)
        return self._in_sandbox(starts)

    def close(self) -> None:
        """End the processes of guarded environments, if there are any. `start` may be called again."""
        if self._guard is not None:
            self._guard.close()
            self._guard = None

    def _in_process(self, start: Start) -> TextEnv | Exception:
        try:
            env = registry.make(self.name, self.settings)
            env.reset(seed=start[0], options={"dynamics_seed": start[1]})
        except Exception as error:  # noqa: BLE001 what an environment raises ends its trajectory, and is told there
            return error
        return env

    def _in_sandbox(self, starts: Sequence[Start]) -> Iterator[TextEnv | Exception]:
        if self._guard is None:
            self._guard = Sandbox(
                self.name, self.settings, step_timeout=self.step_timeout, start_timeout=self.start_timeout
            )
        coming = map(self._begin, [self._guard] * len(starts), starts)
        under_way = deque(islice(coming, _AT_ONCE))
        while under_way:
            env = under_way.popleft()
            yield _end(env)
            under_way.extend(islice(coming, 1))

    @staticmethod
    def _begin(guard: Sandbox, start: Start) -> SandboxedEnv | Exception:
        try:
            env = guard.make()
        except EnvironmentFailure as error:
            return error
        env.begin_reset(seed=start[0], options={"dynamics_seed": start[1]})
        return env


def _end(env: SandboxedEnv | Exception) -> TextEnv | Exception:
    if isinstance(env, Exception):
        return env
    try:
        env.end_reset()
    except EnvironmentFailure as error:
        env.close()
        return error
    return env
