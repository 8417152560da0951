"""Live game sessions of this process: bounded in number, closed when idle, restored by replaying their actions.

The actions are saved in the Django session, so any process can serve the next one. Third-party environments, and rooms
that need a compiler, run in sandboxes. Nothing here runs in an event loop.
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
from envs.pool import as_failure
from envs.registry import environment_class
from envs.sandbox.client import EnvironmentFailure, Sandbox
from envs.sokoban.exact import MAX_STATES
from envs.sokoban.sokoban_env import Sokoban, SokobanSettings
from webapp.play.starts import Start

T = TypeVar("T")
PlayerKey = tuple[int | str, str]
"""A player, and the key of a start."""

MAX_SESSIONS = 48
MAX_SESSIONS_PER_PERSON = 3
IDLE_SECONDS = 600.0
THREADS, VISITOR_THREADS = 6, 2
ANSWER_TIMEOUT = 3.0
STEP_SECONDS, COMPILE_SECONDS, START_SECONDS = 10.0, 90.0, 120.0


class Preparing(Exception):
    """The environment is not ready yet: retry in a second."""


class ActionRefused(ValueError):
    """The action is invalid; nothing was changed. The message gives the reason."""


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
    """An environment and its moves since the start. `sandbox` is the identity of its sandbox, if it has one."""

    def __init__(self, env: TextEnv, sandbox: str = "") -> None:
        self.env = env
        self.board = env.board()
        self.hint = env.hint()
        self.moves: list[Move] = []
        self.lock = threading.Lock()
        self.used = time.monotonic()
        self.sandbox = sandbox

    @property
    def actions(self) -> list[str]:
        return [move.text for move in self.moves]

    @property
    def ended(self) -> bool:
        """Whether the rules ended the game; budgets are not counted here."""
        return bool(self.moves) and self.moves[-1].ended

    def act(self, text: str) -> Move:
        """Execute an action. Raises ActionRefused for an invalid one, EnvironmentFailure if the environment fails."""
        names = {name.lower(): name for name in self.env.env_spec.actions}
        name = names.get(text.lower()) if names else text
        if name is None:
            raise ActionRefused(
                f"“{_short(text)}” is not an action here. Actions: {', '.join(self.env.env_spec.actions)}."
            )
        try:
            _, reward, terminated, truncated, info = self.env.step(name)
            if not info["valid"]:
                raise ActionRefused(f"“{_short(name)}” is not possible here. Nothing was done, and no action was used.")
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
        except Exception as error:  # third-party code: its error is reported
            raise as_failure(error) from error
        self.moves.append(move)
        return move


class SessionPool:
    """Live sessions of this process, by player: the id of a user, or the address of a visitor without an account."""

    def __init__(self, threads: int = THREADS) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="play")
        self._lock = threading.Lock()
        self._sessions: dict[PlayerKey, GameSession] = {}
        self._sandboxes: dict[str, tuple[Sandbox, threading.Lock]] = {}
        self._pending: dict[PlayerKey, Future[Any]] = {}

    def at(self, player: int | str, start: Start, actions: Sequence[str], then: Callable[[GameSession], T]) -> T:
        """Apply `then` to the session after those actions.

        Raises Preparing if that takes longer than ANSWER_TIMEOUT (it continues), EnvironmentFailure, ActionRefused.
        """
        key = (player, start.key)
        with self._lock:
            pending = self._pending.get(key)
            if pending is None:
                if sum(owner == player for owner, _ in self._pending) >= MAX_SESSIONS_PER_PERSON:
                    raise Preparing
                pending = self._pending[key] = self._pool.submit(self._serve, key, start, list(actions), then)
                pending.add_done_callback(lambda _: self._pending.pop(key, None))
                mine = True
            else:
                mine = False
        if not mine:  # a concurrent request: the second one retries
            raise Preparing
        try:
            result: T = pending.result(ANSWER_TIMEOUT)
        except TimeoutError:
            if pending.done():
                raise
            raise Preparing from None
        return result

    def _serve(self, key: PlayerKey, start: Start, actions: list[str], then: Callable[[GameSession], T]) -> T:
        session = self._session(key, start, actions)
        with session.lock:
            session.used = time.monotonic()
            try:
                return then(session)
            except EnvironmentFailure:
                self._drop(key)
                raise

    def _session(self, key: PlayerKey, start: Start, actions: list[str]) -> GameSession:
        self._sweep()
        with self._lock:
            session = self._sessions.get(key)
        if session is not None and session.actions == actions[: len(session.moves)]:
            missing = actions[len(session.moves) :]
        else:
            session, missing = self._make(start), actions
        with session.lock:
            for action in missing:
                if session.ended:  # the address of a game may have any actions
                    break
                session.act(action)
        with self._lock:
            old = self._sessions.get(key)
            self._sessions[key] = session
        if old is not None and old is not session:
            old.env.close()
        return session

    def _make(self, start: Start) -> GameSession:
        dynamics = {} if start.dynamics is None else {"dynamics_seed": start.dynamics}
        identity = "" if is_available(start) else json.dumps([start.environment, start.settings], sort_keys=True)
        try:
            env = self._sandboxed(start, identity) if identity else envs.make(start.environment, start.settings)
            env.reset(seed=start.seed, options=dynamics)
            return GameSession(env, identity)
        except EnvironmentFailure:
            raise
        except Exception as error:  # third-party code: its error is reported
            raise as_failure(error) from error

    def _sandboxed(self, start: Start, identity: str) -> TextEnv:
        timeout = COMPILE_SECONDS if environment_class(start.environment).trusted else STEP_SECONDS
        with self._lock:
            if identity not in self._sandboxes:
                sandbox = Sandbox(start.environment, start.settings, step_timeout=timeout, start_timeout=START_SECONDS)
                self._sandboxes[identity] = (sandbox, threading.Lock())
            sandbox, making = self._sandboxes[identity]
        with making:
            return sandbox.make()

    def _sweep(self) -> None:
        """Close idle and surplus sessions, oldest first, and sandboxes without sessions."""
        now = time.monotonic()
        with self._lock:
            oldest = sorted(self._sessions, key=lambda key: self._sessions[key].used)
            idle = [key for key in oldest if now - self._sessions[key].used > IDLE_SECONDS]
            surplus = oldest[: max(0, len(oldest) - MAX_SESSIONS)]
            gone = [self._sessions.pop(key) for key in dict.fromkeys([*idle, *surplus])]
            serving = {session.sandbox for session in self._sessions.values()}
            unused = [identity for identity in self._sandboxes if identity not in serving]
            ended = [self._sandboxes.pop(identity)[0] for identity in unused] if len(self._pending) == 1 else []
        for session in gone:
            session.env.close()
        for sandbox in ended:
            sandbox.close()

    def _drop(self, key: PlayerKey) -> None:
        with self._lock:
            session = self._sessions.pop(key, None)
        if session is not None:
            session.env.close()

    def close(self) -> None:
        """Close all environments and sandboxes."""
        with self._lock:
            sessions, sandboxes = list(self._sessions.values()), list(self._sandboxes.values())
            self._sessions.clear()
            self._sandboxes.clear()
        for session in sessions:
            session.env.close()
        for sandbox, _ in sandboxes:
            sandbox.close()


SESSIONS = SessionPool()
VISITOR_SESSIONS = SessionPool(VISITOR_THREADS)
"""Sessions of visitors without an account, who never wait for users nor users for them."""


def is_available(start: Start) -> bool:
    """Whether the environment may run in this process: trusted, fast and without a compiler."""
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
