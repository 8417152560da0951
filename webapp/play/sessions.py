"""Live environments of people who play, in this process: few at a time, forgotten when idle, made anew by replaying.

What a person did is kept in the session, so any process can serve the next action. Strangers' environments, and rooms
that wake a compiler, live in processes of their own; nothing here ever runs in an event loop.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import envs
from envs.base import Hint, TextEnv
from envs.pool import failure_message
from envs.registry import environment_class
from envs.sandbox.client import EnvironmentFailure, Sandbox
from envs.sokoban.exact import MAX_STATES
from envs.sokoban.sokoban_env import Sokoban, SokobanSettings
from webapp.play.starts import Start

T = TypeVar("T")

MAX_SESSIONS = 48
MAX_SESSIONS_PER_PERSON = 3
IDLE_SECONDS = 600.0
THREADS = 6
PATIENCE = 3.0
STEP_SECONDS, COMPILE_SECONDS, START_SECONDS = 10.0, 90.0, 120.0


class Preparing(Exception):
    """The environment is being made: ask again in a second."""


class ActionRefused(ValueError):
    """The action is none. The message says so in words; nothing was changed."""


@dataclass(frozen=True)
class Move:
    """An action that was executed."""

    text: str
    reward: float
    effective: bool
    actual: str | None
    success: bool
    ended: bool
    hint: Hint | None


class GameSession:
    """One environment and what was done in it since its start. `guard` names the process that made it, if one did."""

    def __init__(self, env: TextEnv, guard: str = "") -> None:
        self.env = env
        self.board = env.board()
        self.hint = env.hint()
        self.moves: list[Move] = []
        self.lock = threading.Lock()
        self.used = time.monotonic()
        self.guard = guard

    @property
    def actions(self) -> list[str]:
        return [move.text for move in self.moves]

    @property
    def ended(self) -> bool:
        """Whether the rules ended it; budgets are counted elsewhere."""
        return bool(self.moves) and self.moves[-1].ended

    def act(self, text: str) -> Move:
        """Do it. Raises Refused for what is no action here, EnvironmentFailure where the environment breaks."""
        names = {name.lower(): name for name in self.env.env_spec.actions}
        name = names.get(text.lower()) if names else text
        if name is None:
            raise ActionRefused(
                f"There is no action “{_short(text)}” here. There is {', '.join(self.env.env_spec.actions)}."
            )
        try:
            _, reward, terminated, truncated, info = self.env.step(name)
            if not info["valid"]:
                raise ActionRefused(f"“{_short(name)}” is not possible here: nothing was done, and it cost nothing.")
            if not math.isfinite(reward):
                raise ValueError(f"the reward {reward} is not a finite number")
            move = Move(
                text=name,
                reward=float(reward),
                effective=bool(info["effective"]),
                actual=info.get("actual"),
                success=bool(info["success"]),
                ended=bool(terminated or truncated),
                hint=self.env.hint(),
            )
        except ActionRefused:
            raise
        except Exception as error:  # an environment is anybody's code, and what it raises is told
            raise EnvironmentFailure(failure_message(error)) from error
        self.moves.append(move)
        return move


class SessionPool:
    """All live environments of this process."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="play")
        self._lock = threading.Lock()
        self._tables: dict[tuple[int, str], GameSession] = {}
        self._guards: dict[str, tuple[Sandbox, threading.Lock]] = {}
        self._coming: dict[tuple[int, str], Future[Any]] = {}

    def at(self, person: int, start: Start, actions: Sequence[str], then: Callable[[GameSession], T]) -> T:
        """What `then` says about the environment after those actions.

        Raises Preparing when that takes longer than PATIENCE (it goes on being made), EnvironmentFailure, Refused.
        """
        key = (person, start.key)
        with self._lock:
            coming = self._coming.get(key)
            if coming is None:
                if sum(owner == person for owner, _ in self._coming) >= MAX_SESSIONS_PER_PERSON:
                    raise Preparing
                coming = self._coming[key] = self._pool.submit(self._serve, key, start, list(actions), then)
                coming.add_done_callback(lambda _: self._coming.pop(key, None))
                mine = True
            else:
                mine = False
        if not mine:  # somebody asks twice: the second is told to come again
            raise Preparing
        try:
            found: T = coming.result(PATIENCE)
        except TimeoutError:
            if coming.done():
                raise
            raise Preparing from None
        return found

    def _serve(self, key: tuple[int, str], start: Start, actions: list[str], then: Callable[[GameSession], T]) -> T:
        table = self._table(key, start, actions)
        with table.lock:
            table.used = time.monotonic()
            try:
                return then(table)
            except EnvironmentFailure:
                self._drop(key)
                raise

    def _table(self, key: tuple[int, str], start: Start, actions: list[str]) -> GameSession:
        self._sweep()
        with self._lock:
            table = self._tables.get(key)
        if table is not None and table.actions == actions[: len(table.moves)]:
            missing = actions[len(table.moves) :]
        else:
            table, missing = self._make(start), actions
        with table.lock:
            for action in missing:
                table.act(action)
        with self._lock:
            old = self._tables.get(key)
            self._tables[key] = table
        if old is not None and old is not table:
            old.env.close()
        return table

    def _make(self, start: Start) -> GameSession:
        dynamics = {} if start.dynamics is None else {"dynamics_seed": start.dynamics}
        identity = "" if is_available(start) else json.dumps([start.environment, start.settings], sort_keys=True)
        try:
            env = self._guarded(start, identity) if identity else envs.make(start.environment, start.settings)
            env.reset(seed=start.seed, options=dynamics)
            return GameSession(env, identity)
        except EnvironmentFailure:
            raise
        except Exception as error:  # an environment is anybody's code, and what it raises is told
            raise EnvironmentFailure(failure_message(error)) from error

    def _guarded(self, start: Start, identity: str) -> TextEnv:
        patience = COMPILE_SECONDS if environment_class(start.environment).trusted else STEP_SECONDS
        with self._lock:
            if identity not in self._guards:
                guard = Sandbox(start.environment, start.settings, step_timeout=patience, start_timeout=START_SECONDS)
                self._guards[identity] = (guard, threading.Lock())
            guard, making = self._guards[identity]
        with making:
            return guard.make()

    def _sweep(self) -> None:
        """Forget what nobody looked at for a while, oldest first, and processes that serve nobody any more."""
        now = time.monotonic()
        with self._lock:
            oldest = sorted(self._tables, key=lambda key: self._tables[key].used)
            idle = [key for key in oldest if now - self._tables[key].used > IDLE_SECONDS]
            surplus = oldest[: max(0, len(oldest) - MAX_SESSIONS)]
            gone = [self._tables.pop(key) for key in dict.fromkeys([*idle, *surplus])]
            serving = {table.guard for table in self._tables.values()}
            unused = [identity for identity in self._guards if identity not in serving]
            ended = [self._guards.pop(identity)[0] for identity in unused] if len(self._coming) == 1 else []
        for table in gone:
            table.env.close()
        for guard in ended:
            guard.close()

    def _drop(self, key: tuple[int, str]) -> None:
        with self._lock:
            table = self._tables.pop(key, None)
        if table is not None:
            table.env.close()

    def close(self) -> None:
        """End everything that was started beside this process."""
        with self._lock:
            tables, guards = list(self._tables.values()), list(self._guards.values())
            self._tables.clear()
            self._guards.clear()
        for table in tables:
            table.env.close()
        for guard, _ in guards:
            guard.close()


SESSIONS = SessionPool()


def is_available(start: Start) -> bool:
    """Whether it may be played in this process: known to return at once, and without a compiler."""
    kind = environment_class(start.environment)
    if not kind.trusted:
        return False
    if not issubclass(kind, Sokoban):
        return True
    settings = kind.Settings.model_validate(start.settings)
    assert isinstance(settings, SokobanSettings)
    floor = (settings.size - 2) ** 2
    return floor * math.comb(floor, settings.boxes) <= MAX_STATES


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:59]}…"
