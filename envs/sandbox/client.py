"""Environments that may hang, crash or exit: each lives in a process of its own, ended when it does not answer.

A thread cannot be killed in Python, and an endless loop cannot be interrupted from within: only another process helps.
A host (guard_host.py; no torch, no other threads) is started once and makes one environment, so that modules and data
are loaded. Every environment that is played is made in a fork of it: milliseconds to have, its memory mostly shared.
Nothing of one trajectory reaches another, and ending one leaves the others alone.

Which environments need this is said by `TextEnv.trusted`. Works on Linux and macOS.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import weakref
from typing import Any

from pydantic import TypeAdapter, ValidationError

from envs import registry
from envs.base import ArmsBoard, Board, EnvSpec, GridBoard, Hint, PageBoard, TextBoard, TextEnv
from envs.sandbox.host import COMMAND, receive, said, send

_BOARD: TypeAdapter[Any] = TypeAdapter(Board)
_SINGLE_THREADED = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
_PATIENCE = 10.0  # for answers of the host itself, which never runs an environment's code by then


class EnvironmentFailure(Exception):
    """An environment raised, hung or ended. The message says what happened, in one line."""


class Sandbox:
    """Makes guarded environments of one name and one choice of settings.

    Args:
        name: a registered environment.
        settings: as for `envs.make`.
        step_timeout: longest time of one reset or step with the look at its text, board and hint, seconds.
        start_timeout: longest time in which an environment is made, its modules and data loaded, seconds.
    """

    def __init__(
        self,
        name: str,
        settings: dict[str, Any] | None = None,
        *,
        step_timeout: float = 10.0,
        start_timeout: float = 120.0,
    ) -> None:
        self.name, self.settings = name, settings or {}
        self.step_timeout, self.start_timeout = step_timeout, start_timeout
        self._host: _HostProcess | None = None
        self._unmakeable: str | None = None
        self._made = 0
        self._open: weakref.WeakSet[SandboxedEnv] = weakref.WeakSet()

    def make(self) -> SandboxedEnv:
        """A new environment in a process of its own. Raises EnvironmentFailure where none can be made at all."""
        if self._unmakeable is not None:
            raise EnvironmentFailure(self._unmakeable)
        number = self._made = self._made + 1
        for attempt in range(2):
            host = self._running()
            ours, theirs = socket.socketpair()
            try:
                with theirs:
                    host.start(number, theirs)
            except ConnectionError:  # somebody killed the host; the environments it had made live on
                ours.close()
                self._host = None
                if attempt:
                    raise
                continue
            env = SandboxedEnv(self, host, number, ours)
            self._open.add(env)
            return env
        raise AssertionError("unreachable")

    def _running(self) -> _HostProcess:
        if self._host is None:
            try:
                self._host = _HostProcess(self)
            except EnvironmentFailure as error:
                self._unmakeable = str(error)
                raise
        return self._host

    def close(self) -> None:
        """End the host and what it has made. The next `make` would start another."""
        for env in list(self._open):
            env.close()
        if self._host is not None:
            self._host.close()
            self._host = None


class _HostProcess:
    """The host as its owner sees it: a process and the control socket."""

    def __init__(self, guard: Sandbox) -> None:
        self.control, theirs = socket.socketpair()
        job = {
            "name": guard.name,
            "settings": guard.settings,
            "step_timeout": guard.step_timeout,
            "start_timeout": guard.start_timeout,
        }
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "envs.sandbox.host", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | dict.fromkeys(_SINGLE_THREADED, "1"),
            )
        self.close = weakref.finalize(self, _end_host, self._process, self.control)
        deadline = time.monotonic() + guard.start_timeout
        try:
            send(self.control, job)
            answer = receive(self.control, deadline)
        except TimeoutError:
            self._process.kill()
            self.close()
            raise EnvironmentFailure(
                f"{guard.name} could not be made within {guard.start_timeout:g} s (environment.start_timeout)"
            ) from None
        except (EOFError, ConnectionError):
            self.control.close()
            raise EnvironmentFailure(f"{guard.name} could not be made: {_ending(self._process.wait())}") from None
        if "error" in answer:
            self.close()
            raise EnvironmentFailure(f"{guard.name} could not be made: {answer['error']}")

    def start(self, number: int, connection: socket.socket) -> None:
        """Have a child forked that serves on this socket."""
        self.control.settimeout(_PATIENCE)
        socket.send_fds(self.control, [COMMAND.pack(b"S", number)], [connection.fileno()])

    def ended(self, number: int, *, kill: bool) -> int | None:
        """The exit status of a child that is ending or, with `kill`, shall; None where it cannot be had."""
        try:
            self.control.settimeout(_PATIENCE)
            self.control.sendall(COMMAND.pack(b"K" if kill else b"W", number))
            status: int | None = receive(self.control, time.monotonic() + _PATIENCE)["status"]
        except (OSError, EOFError):  # without its host it ends by its own alarm
            return None
        return status

    def forget(self, number: int) -> None:
        """A child's connection was closed; how it ends is of no interest."""
        try:
            self.control.sendall(COMMAND.pack(b"F", number))
        except OSError:
            pass


def _end_host(process: subprocess.Popen[bytes], control: socket.socket) -> None:
    """The host goes when its control socket closes, its children with it."""
    control.close()
    try:
        process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _ending(status: int | None) -> str:
    if status is None:
        return "its process is gone"
    if status == -signal.SIGKILL:
        return "its process was killed (perhaps for want of memory)"
    if status < 0:
        return f"its process died of {signal.Signals(-status).name}"
    return f"its process ended with exit status {status}"


class SandboxedEnv(TextEnv):
    """An environment in another process, seen through the usual interface. Every call may raise EnvironmentFailure.

    Text, board and hint come with the answer to the action before them: looking at them costs nothing and cannot fail.
    After a failure the environment is gone.
    """

    def __init__(self, guard: Sandbox, host: _HostProcess, number: int, connection: socket.socket) -> None:
        self._guard, self._host, self._number = guard, host, number
        self._connection: socket.socket | None = connection
        self._made_at: float | None = None
        self._born = self._asked = time.monotonic()
        super().__init__(registry.settings_model(guard.name).model_validate(guard.settings))

    def begin_reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Ask for a reset without waiting, so that many environments may start at the same time; then `end_reset`."""
        self._ask("reset", seed, options)

    def end_reset(self) -> tuple[str, dict[str, Any]]:
        """Wait for the reset that was asked for."""
        if self._made_at is None:
            deadline = self._born + self._guard.start_timeout
            self._made_at = self._answer("being made", deadline, "start_timeout")["made"]
        since = max(self._made_at, self._asked)
        answer = self._answer("reset()", since + self._guard.step_timeout, "step_timeout")
        self._look(answer)
        self.world = EnvSpec.model_validate(answer["world"])
        return self._text, answer["info"]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        self.begin_reset(seed=seed, options=options)
        return self.end_reset()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self._ask("step", action)
        deadline = self._asked + self._guard.step_timeout
        answer = self._answer(f"step({_short(action)})", deadline, "step_timeout")
        self._look(answer)
        return self._text, answer["reward"], answer["terminated"], answer["truncated"], answer["info"]

    def render(self) -> str:
        """The text of the present state."""
        return self._text

    def board(self) -> GridBoard | ArmsBoard | PageBoard | TextBoard:
        """The board of the present state."""
        return self._board

    def hint(self) -> Hint | None:
        """The advice about the present state."""
        return self._hint

    def close(self) -> None:
        """Let the process end: idle, it closes its environment and goes by itself."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
            self._host.forget(self._number)

    def _ask(self, call: str, *arguments: Any) -> None:
        if self._connection is None:
            raise EnvironmentFailure("it is closed, or failed before")
        self._asked = time.monotonic()
        try:
            self._connection.settimeout(self._guard.step_timeout)
            send(self._connection, [call, arguments])
        except OSError:
            pass  # it is gone, or so busy that it reads nothing: the answer will not come, and that is told

    def _answer(self, doing: str, deadline: float, limit: str) -> dict[str, Any]:
        if self._connection is None:
            raise EnvironmentFailure("it is closed, or failed before")
        try:
            answer: dict[str, Any] = receive(self._connection, deadline)
        except TimeoutError:
            self._abandon(kill=True)
            seconds = getattr(self._guard, limit)
            raise EnvironmentFailure(f"no answer to {doing} within {seconds:g} s (environment.{limit})") from None
        except (EOFError, ConnectionError):
            raise EnvironmentFailure(f"during {doing} {_ending(self._abandon(kill=False))}") from None
        if "error" in answer:
            raise EnvironmentFailure(answer["error"])
        return answer

    def _abandon(self, *, kill: bool) -> int | None:
        assert self._connection is not None
        status = self._host.ended(self._number, kill=kill)
        self._connection.close()
        self._connection = None
        return status

    def _look(self, answer: dict[str, Any]) -> None:
        if not isinstance(answer["text"], str):
            raise EnvironmentFailure(f"render() gave {type(answer['text']).__name__} where text is due")
        try:
            board: GridBoard | ArmsBoard | PageBoard | TextBoard = _BOARD.validate_python(answer["board"])
            hint = None if answer["hint"] is None else Hint.model_validate(answer["hint"])
        except ValidationError as error:
            raise EnvironmentFailure(said(error)) from None
        self._text, self._board, self._hint = answer["text"], board, hint


def _short(text: str) -> str:
    return repr(text) if len(text) <= 40 else repr(text[:39] + "…")
