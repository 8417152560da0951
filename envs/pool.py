"""Environment pool that opens many environments of one kind: trusted ones in this process, others in sandboxes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from envs import registry
from envs.base import TextEnv
from envs.sandbox.client import EnvironmentFailure, Sandbox, SandboxedEnv

_MAX_CONCURRENT_RESETS = 16  # few enough not to delay each other past a time-out

Start = tuple[int, int]
"""Seed of the initial state, seed of the dynamics."""


def as_failure(error: Exception) -> EnvironmentFailure:
    """Return the failure recorded for a trajectory whose environment raised an error, hung or exited."""
    if isinstance(error, EnvironmentFailure):
        return EnvironmentFailure(f"the environment failed: {error}", timed_out=error.timed_out)
    return EnvironmentFailure(f"the environment failed: {type(error).__name__}: {error}")


class EnvironmentPool:
    """Environments of one name and settings. `close` ends the sandbox processes started by `start`.

    Args:
        name: a registered environment.
        settings: its settings, as the registry's settings model reads them.
        step_timeout, start_timeout: time limits of a sandboxed environment for a step and for starting, seconds.
    """

    def __init__(self, name: str, settings: Mapping[str, Any], *, step_timeout: float, start_timeout: float) -> None:
        self.name, self.settings = name, dict(settings)
        self.step_timeout, self.start_timeout = step_timeout, start_timeout
        self._sandbox: Sandbox | None = None

    def start(self, starts: Sequence[Start]) -> Iterator[TextEnv | Exception]:
        """Yield for each start, in order, an environment after its reset, or the error."""
        if registry.environment_class(self.name).trusted:
            return map(self._in_process, starts)
        return self._in_sandbox(starts)

    def close(self) -> None:
        """End the sandbox processes, if any. `start` may be called again."""
        if self._sandbox is not None:
            self._sandbox.close()
            self._sandbox = None

    def _in_process(self, start: Start) -> TextEnv | Exception:
        try:
            env = registry.make(self.name, self.settings)
            env.reset(seed=start[0], options={"dynamics_seed": start[1]})
        except Exception as error:  # noqa: BLE001 the error is recorded in the trajectory
            return error
        return env

    def _in_sandbox(self, starts: Sequence[Start]) -> Iterator[TextEnv | Exception]:
        if self._sandbox is None:
            self._sandbox = Sandbox(
                self.name, self.settings, step_timeout=self.step_timeout, start_timeout=self.start_timeout
            )
        started = map(self._begin_reset, [self._sandbox] * len(starts), starts)
        pending = deque(islice(started, _MAX_CONCURRENT_RESETS))
        while pending:
            yield _end_reset(pending.popleft())
            pending.extend(islice(started, 1))

    @staticmethod
    def _begin_reset(sandbox: Sandbox, start: Start) -> SandboxedEnv | Exception:
        try:
            env = sandbox.make()
        except EnvironmentFailure as error:
            return error
        env.begin_reset(seed=start[0], options={"dynamics_seed": start[1]})
        return env


def _end_reset(env: SandboxedEnv | Exception) -> TextEnv | Exception:
    if isinstance(env, Exception):
        return env
    try:
        env.end_reset()
    except EnvironmentFailure as error:
        env.close()
        return error
    return env
