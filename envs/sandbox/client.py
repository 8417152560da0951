"""Sandbox for environments that may hang, crash or exit: each runs in its own process, killed after a time-out.

Python can neither kill a thread nor interrupt an endless loop from within, so a process is needed. A host process
(`envs.sandbox.host`; without torch and other threads) is started once and makes one environment, which loads modules
and data. Every environment is then made in a fork of the host: within milliseconds, with mostly shared memory, and
isolated from the others.

`TextEnv.trusted` says which environments need no sandbox. Works on Linux and macOS.
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
from envs.sandbox.host import COMMAND, error_line, receive, send
from envs.sandbox.host_environment import host_environment

_BOARD: TypeAdapter[Any] = TypeAdapter(Board)
_SINGLE_THREADED = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
TIMEOUT_VARIABLES = {
    "step_timeout": "ECHOSCOPE_TIMEOUT_ENVIRONMENT_STEP",
    "start_timeout": "ECHOSCOPE_TIMEOUT_ENVIRONMENT_START",
}
"""Variables with which an operator changes the time limits of a trainer's sandboxes; see trainer.timeouts."""
_HOST_TIMEOUT = 10.0  # for the host itself, which runs no environment code after its start


class EnvironmentFailure(Exception):
    """An environment raised, hung or exited. The message says what happened, in one line.

    timed_out: whether it did not answer within a time limit.
    """

    def __init__(self, message: str, *, timed_out: bool = False) -> None:
        super().__init__(message)
        self.timed_out = timed_out


class Sandbox:
    """Makes sandboxed environments of one name and settings.

    name: a registered environment.
    settings: settings, as for `envs.make`.
    step_timeout: time limit of one reset or step including text, board and hint, seconds.
    start_timeout: time limit of making an environment including loading of modules and data, seconds.
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
        self._start_error: EnvironmentFailure | None = None
        self._count = 0
        self._open: weakref.WeakSet[SandboxedEnv] = weakref.WeakSet()

    def make(self) -> SandboxedEnv:
        """Make an environment in a separate process. Raises EnvironmentFailure if none can be made."""
        if self._start_error is not None:
            raise self._start_error.with_traceback(None)  # which would grow with each attempt
        number = self._count = self._count + 1
        for attempt in range(2):
            host = self._running_host()
            own_end, child_end = socket.socketpair()
            try:
                with child_end:
                    host.start(number, child_end)
            except ConnectionError:  # the host was killed; its earlier environments still run
                own_end.close()
                self._host = None
                if attempt:
                    raise
                continue
            env = SandboxedEnv(self, host, number, own_end)
            self._open.add(env)
            return env
        raise AssertionError("unreachable")

    def _running_host(self) -> _HostProcess:
        if self._host is None:
            try:
                self._host = _HostProcess(self)
            except EnvironmentFailure as error:
                self._start_error = error
                raise
        return self._host

    def close(self) -> None:
        """End the host and its environments. The next `make` starts another host."""
        for env in list(self._open):
            env.close()
        if self._host is not None:
            self._host.close()
            self._host = None


class _HostProcess:
    """Handle of the host: its process and control socket."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.control, child_end = socket.socketpair()
        job = {
            "name": sandbox.name,
            "settings": sandbox.settings,
            "step_timeout": sandbox.step_timeout,
            "start_timeout": sandbox.start_timeout,
        }
        with child_end:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "envs.sandbox.host", str(child_end.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=(child_end.fileno(),),
                env=host_environment(os.environ, registry.environment_class(sandbox.name).variables)
                | {"PYTHONPATH": os.pathsep.join(sys.path)}
                | dict.fromkeys(_SINGLE_THREADED, "1"),
            )
        self.close = weakref.finalize(self, _end_host, self._process, self.control)
        deadline = time.monotonic() + sandbox.start_timeout
        try:
            send(self.control, job)
            reply = receive(self.control, deadline)
        except TimeoutError:
            self._process.kill()
            self.close()
            raise EnvironmentFailure(
                f"{sandbox.name} could not be made within {sandbox.start_timeout:g} s "
                f"({TIMEOUT_VARIABLES['start_timeout']})",
                timed_out=True,
            ) from None
        except (EOFError, ConnectionError):
            self.control.close()
            raise EnvironmentFailure(
                f"{sandbox.name} could not be made: {_exit_message(self._process.wait())}"
            ) from None
        if "error" in reply:
            self.close()
            raise EnvironmentFailure(f"{sandbox.name} could not be made: {reply['error']}")

    def start(self, number: int, connection: socket.socket) -> None:
        """Fork a child that serves on this socket."""
        self.control.settimeout(_HOST_TIMEOUT)
        socket.send_fds(self.control, [COMMAND.pack(b"S", number)], [connection.fileno()])

    def wait(self, number: int, *, kill: bool) -> int | None:
        """Return the exit status of a child that is ending, or is killed with `kill`; None if unavailable."""
        try:
            self.control.settimeout(_HOST_TIMEOUT)
            self.control.sendall(COMMAND.pack(b"K" if kill else b"W", number))
            status: int | None = receive(self.control, time.monotonic() + _HOST_TIMEOUT)["status"]
        except (OSError, EOFError):  # without its host, its alarm ends it
            return None
        return status

    def forget(self, number: int) -> None:
        """Drop the exit status of a child whose connection was closed."""
        try:
            self.control.sendall(COMMAND.pack(b"F", number))
        except OSError:
            pass


def _end_host(process: subprocess.Popen[bytes], control: socket.socket) -> None:
    """Close the control socket, which ends the host and its children."""
    control.close()
    try:
        process.wait(_HOST_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _exit_message(status: int | None) -> str:
    if status is None:
        return "its process is gone"
    if status == -signal.SIGKILL:
        return "its process was killed (possibly out of memory)"
    if status < 0:
        return f"its process died of {signal.Signals(-status).name}"
    return f"its process ended with exit status {status}"


class SandboxedEnv(TextEnv):
    """A `TextEnv` in another process. Every call may raise EnvironmentFailure, after which it is unusable.

    Text, board and hint arrive with the reply to an action, so `render`, `board` and `hint` are local and cannot fail.
    """

    def __init__(self, sandbox: Sandbox, host: _HostProcess, number: int, connection: socket.socket) -> None:
        self._sandbox, self._host, self._number = sandbox, host, number
        self._connection: socket.socket | None = connection
        self._made_at: float | None = None
        self._forked_at = self._sent_at = time.monotonic()
        super().__init__(registry.settings_model(sandbox.name).model_validate(sandbox.settings))

    def begin_reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Send a reset without waiting, so that many environments start concurrently; then `end_reset`."""
        self._send("reset", seed, options)

    def end_reset(self) -> tuple[str, dict[str, Any]]:
        """Wait for the reset sent by `begin_reset`."""
        if self._made_at is None:
            deadline = self._forked_at + self._sandbox.start_timeout
            self._made_at = self._receive("being made", deadline, "start_timeout")["made"]
        start = max(self._made_at, self._sent_at)
        reply = self._receive("reset()", start + self._sandbox.step_timeout, "step_timeout")
        self._update_view(reply)
        self.env_spec = EnvSpec.model_validate(reply["env_spec"])
        return self._text, reply["info"]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        self.begin_reset(seed=seed, options=options)
        return self.end_reset()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self._send("step", action)
        deadline = self._sent_at + self._sandbox.step_timeout
        reply = self._receive(f"step({_short(action)})", deadline, "step_timeout")
        self._update_view(reply)
        return self._text, reply["reward"], reply["terminated"], reply["truncated"], reply["info"]

    def reseed(self, seed: int) -> None:
        self._send("reseed", seed)
        self._update_view(self._receive("reseed()", self._sent_at + self._sandbox.step_timeout, "step_timeout"))

    def render(self) -> str:
        """Return the text of the current state."""
        return self._text

    def board(self) -> GridBoard | ArmsBoard | PageBoard | TextBoard:
        """Return the board of the current state."""
        return self._board

    def hint(self) -> Hint | None:
        """Return advice about the current state."""
        return self._hint

    def close(self) -> None:
        """Close the connection; an idle process then closes its environment and exits."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
            self._host.forget(self._number)

    def _send(self, call: str, *arguments: Any) -> None:
        if self._connection is None:
            raise EnvironmentFailure("it is closed, or failed before")
        self._sent_at = time.monotonic()
        try:
            self._connection.settimeout(self._sandbox.step_timeout)
            send(self._connection, [call, arguments])
        except OSError:
            pass  # it has exited or hangs; _receive reports that

    def _receive(self, call: str, deadline: float, limit: str) -> dict[str, Any]:
        if self._connection is None:
            raise EnvironmentFailure("it is closed, or failed before")
        try:
            reply: dict[str, Any] = receive(self._connection, deadline)
        except TimeoutError:
            self._disconnect(kill=True)
            seconds = getattr(self._sandbox, limit)
            message = f"no answer to {call} within {seconds:g} s ({TIMEOUT_VARIABLES[limit]})"
            raise EnvironmentFailure(message, timed_out=True) from None
        except (EOFError, ConnectionError):
            raise EnvironmentFailure(f"during {call} {_exit_message(self._disconnect(kill=False))}") from None
        if "error" in reply:
            raise EnvironmentFailure(reply["error"])
        return reply

    def _disconnect(self, *, kill: bool) -> int | None:
        """Close the connection. Returns the exit status of the process."""
        assert self._connection is not None
        status = self._host.wait(self._number, kill=kill)
        self._connection.close()
        self._connection = None
        return status

    def _update_view(self, reply: dict[str, Any]) -> None:
        if not isinstance(reply["text"], str):
            raise EnvironmentFailure(f"render() returned {type(reply['text']).__name__} instead of text")
        try:
            board: GridBoard | ArmsBoard | PageBoard | TextBoard = _BOARD.validate_python(reply["board"])
            hint = None if reply["hint"] is None else Hint.model_validate(reply["hint"])
        except ValidationError as error:
            raise EnvironmentFailure(error_line(error)) from None
        self._text, self._board, self._hint = reply["text"], board, hint


def _short(text: str) -> str:
    return repr(text) if len(text) <= 40 else repr(text[:39] + "…")
