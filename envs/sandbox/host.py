"""Host process of a sandbox: makes one environment to load modules and data, then forks a child per environment.

Started by `envs.sandbox.client` as `python -m envs.sandbox.host`.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import struct
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pydantic import ValidationError

import envs
from envs.base import TextEnv, checked_info

COMMAND = struct.Struct("!cQ")
"""Command to the host: a letter (Start with the child's socket attached, Kill, Wait, Forget), number of a child."""
_LENGTH = struct.Struct("!I")
_MAX_MESSAGE_BYTES = 64 * 2**20
_GRACE_SECONDS = 2.0  # after a time limit, before the kernel ends the process
_CLOSE_TIMEOUT = 2.0


def send(connection: socket.socket, message: Any) -> None:
    """Send a message: its length, then JSON. Lone surrogates, which UTF-8 cannot encode, become a ?."""
    data = json.dumps(message, ensure_ascii=False).encode("utf-8", "replace")
    connection.sendall(_LENGTH.pack(len(data)) + data)


def receive(connection: socket.socket, deadline: float | None = None) -> Any:
    """Receive a message. Raises EOFError when disconnected, TimeoutError after `deadline` (monotonic)."""
    (size,) = _LENGTH.unpack(_exactly(connection, _LENGTH.size, deadline))
    if size > _MAX_MESSAGE_BYTES:
        raise EOFError(f"invalid message of {size:,} bytes")
    return json.loads(_exactly(connection, size, deadline))


def _exactly(connection: socket.socket, size: int, deadline: float | None) -> bytes:
    data = bytearray()
    while len(data) < size:
        if deadline is not None:  # data that have arrived are read even after the deadline
            connection.settimeout(max(0.0, deadline - time.monotonic()))
        try:
            part = connection.recv(size - len(data))
        except BlockingIOError:
            raise TimeoutError from None
        if not part:
            raise EOFError
        data += part
    return bytes(data)


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Let the kernel end this process if the block takes much longer.

    The client normally kills it first; this covers the case that the client is gone.
    """
    signal.setitimer(signal.ITIMER_REAL, seconds + _GRACE_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def error_line(error: BaseException) -> str:
    """Return an exception in one line."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{error.title}: {'.'.join(map(str, first['loc']))}: {first['msg']}"
    return " ".join(f"{type(error).__name__}: {error}".split()).rstrip(":")


def view(env: TextEnv) -> dict[str, Any]:
    """Return text, board and hint of the current state."""
    hint = env.hint()
    return {"text": env.render(), "board": env.board().model_dump(), "hint": hint and hint.model_dump()}


def reset(env: TextEnv, seed: int | None, options: dict[str, Any] | None) -> dict[str, Any]:
    """Reset the environment; the reply includes its description, which may change at a reset."""
    _, info = env.reset(seed=seed, options=options)
    return view(env) | {"info": checked_info(info), "env_spec": env.env_spec.model_dump()}


def step(env: TextEnv, action: str) -> dict[str, Any]:
    """Execute an action."""
    _, reward, terminated, truncated, info = env.step(action)
    return view(env) | {
        "reward": float(reward),
        "terminated": bool(terminated),
        "truncated": bool(truncated),
        "info": checked_info(info),
    }


def reseed(env: TextEnv, seed: int) -> dict[str, Any]:
    """Draw all later randomness from another seed."""
    env.reseed(seed)
    return view(env)


_CALLS: dict[str, Callable[..., dict[str, Any]]] = {"reset": reset, "step": step, "reseed": reseed}


def serve(connection: socket.socket, job: dict[str, Any]) -> None:
    """Main loop of a child: make the environment and execute calls until the connection closes."""
    try:
        with _time_limit(job["start_timeout"]):
            env = envs.make(job["name"], job["settings"])
            env.prepare()
    except BaseException as error:  # noqa: BLE001 third-party code; the error is reported
        send(connection, {"error": error_line(error)})
        return
    send(connection, {"made": time.monotonic()})
    while True:
        try:
            call, arguments = receive(connection)
        except EOFError:
            break
        try:
            with _time_limit(job["step_timeout"]):
                reply = _CALLS[call](env, *arguments)
        except BaseException as error:  # noqa: BLE001 as above, including SystemExit
            reply = {"error": error_line(error)}
        send(connection, reply)
    with _time_limit(_CLOSE_TIMEOUT):
        env.close()


class SandboxHost:
    """Main loop of the host: executes commands and tracks its children."""

    def __init__(self, control: socket.socket, job: dict[str, Any]) -> None:
        self.control, self.job = control, job
        self.alive: dict[int, int] = {}  # number → process id, until reaped
        self.statuses: dict[int, int] = {}  # number → exit status, until waited for or forgotten

    def run(self) -> None:
        """Execute commands until the control socket closes; then give the children time to exit."""
        while True:
            data, sockets, _, _ = socket.recv_fds(self.control, COMMAND.size, 1)
            self._reap()
            if not data:
                break
            command, number = COMMAND.unpack(data)
            match command:
                case b"S":
                    self._start(number, sockets[0])
                case b"K":
                    send(self.control, {"status": self._end(number, timeout=0)})
                case b"W":
                    send(self.control, {"status": self._end(number, timeout=0.5)})
                case b"F":
                    self.statuses.pop(number, None)
        deadline = time.monotonic() + _CLOSE_TIMEOUT + _GRACE_SECONDS
        while self.alive and time.monotonic() < deadline:
            time.sleep(0.02)
            self._reap()
        for number in list(self.alive):
            self._end(number, timeout=0)

    def _start(self, number: int, descriptor: int) -> None:
        try:
            process = os.fork()
        except OSError as error:  # out of memory or processes; the client finds the connection closed
            print(f"cannot fork an environment: {error}", file=sys.stderr, flush=True)  # noqa: T201
            os.close(descriptor)
            return
        if process:
            os.close(descriptor)
            self.alive[number] = process
            _lead_group(process)
            return
        status = 1
        try:
            _lead_group(0)
            self.control.close()
            for interruption in (signal.SIGINT, signal.SIGTERM):
                signal.signal(interruption, signal.SIG_DFL)
            with socket.socket(fileno=descriptor) as connection:
                serve(connection, self.job)
            status = 0
        except ConnectionError:
            pass  # the client has closed the connection
        except BaseException:  # noqa: BLE001 the process ends here
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    def _reap(self) -> None:
        for number, process in list(self.alive.items()):
            ended, status = os.waitpid(process, os.WNOHANG)
            if ended:
                self._record_exit(number, status)

    def _record_exit(self, number: int, status: int) -> None:
        del self.alive[number]
        self.statuses[number] = os.waitstatus_to_exitcode(status)

    def _end(self, number: int, timeout: float) -> int | None:
        """Wait for a child, and kill its process group after the timeout.

        Returns its exit status, negative for a signal.
        """
        deadline = time.monotonic() + timeout
        while number in self.alive and time.monotonic() < deadline:
            time.sleep(0.005)
            self._reap()
        if number in self.alive:
            process = self.alive[number]
            try:
                os.killpg(process, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):  # macOS refuses a group of zombies
                os.kill(process, signal.SIGKILL)
            self._record_exit(number, os.waitpid(process, 0)[1])
        return self.statuses.pop(number, None)


def _lead_group(process: int) -> None:
    """Put a child into its own process group, so that its subprocesses end with it. Called in both processes."""
    try:
        os.setpgid(process, process)
    except (PermissionError, ProcessLookupError):
        pass


def main() -> None:
    """Make one environment, which loads shared modules and data before the first fork; then serve."""
    for interruption in (signal.SIGINT, signal.SIGTERM):  # the owner of the control socket ends this process
        signal.signal(interruption, signal.SIG_IGN)
    control = socket.socket(fileno=int(sys.argv[1]))
    job = receive(control)
    try:
        with _time_limit(job["start_timeout"]):
            env = envs.make(job["name"], job["settings"])
            env.prepare()
            env.close()
    except BaseException as error:  # noqa: BLE001 as in serve
        send(control, {"error": error_line(error)})
        return
    gc.collect()
    gc.freeze()  # garbage collection would touch, and so copy, pages shared with the children
    send(control, {"made": time.monotonic()})
    SandboxHost(control, job).run()


if __name__ == "__main__":
    main()
