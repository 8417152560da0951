"""The process behind guarded environments: it makes one environment to warm up, then forks a child for each one played.

Started by guarded.py as `python -m envs.sandbox.host`; what is said to it and who waits for whom stands there.
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
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pydantic import ValidationError

import envs
from envs.base import StepInfo, TextEnv

COMMAND = struct.Struct("!cQ")
"""To the host: a letter (Start with the child's socket attached, Kill, Wait, Forget) and the number of a child."""
_LENGTH = struct.Struct("!I")
_LONGEST = 64 * 2**20
_GRACE = 2.0
_LAST_WORDS = 2.0


def send(connection: socket.socket, message: Any) -> None:
    """One message: its length, then JSON. Half characters, which no file and no tokenizer takes, become a ?."""
    data = json.dumps(message, ensure_ascii=False).encode("utf-8", "replace")
    connection.sendall(_LENGTH.pack(len(data)) + data)


def receive(connection: socket.socket, deadline: float | None = None) -> Any:
    """The next message. Raises EOFError where the other side is gone, TimeoutError after `deadline` (monotonic)."""
    (size,) = _LENGTH.unpack(_exactly(connection, _LENGTH.size, deadline))
    if size > _LONGEST:
        raise EOFError(f"a message of {size:,} bytes is none of ours")
    return json.loads(_exactly(connection, size, deadline))


def _exactly(connection: socket.socket, size: int, deadline: float | None) -> bytes:
    data = bytearray()
    while len(data) < size:
        if deadline is not None:  # what has arrived by now is read however late one looks
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
def _at_most(seconds: float) -> Iterator[None]:
    """End this process should the block take much longer: by the kernel, whatever the code is busy with.

    Whoever waits for an answer gives up first; this is for when nobody is left who could.
    """
    signal.setitimer(signal.ITIMER_REAL, seconds + _GRACE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def said(error: BaseException) -> str:
    """An exception in one line."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{error.title}: {'.'.join(map(str, first['loc']))}: {first['msg']}"
    return " ".join(f"{type(error).__name__}: {error}".split()).rstrip(":")


def view(env: TextEnv) -> dict[str, Any]:
    """Everything that is looked at between two actions."""
    hint = env.hint()
    return {"text": env.render(), "board": env.board().model_dump(), "hint": hint and hint.model_dump()}


def reset(env: TextEnv, seed: int | None, options: dict[str, Any] | None) -> dict[str, Any]:
    """Reset, and what is then seen; the description belongs to it, since an environment may write it anew."""
    _, info = env.reset(seed=seed, options=options)
    return view(env) | {"info": StepInfo.model_validate(info).model_dump(), "world": env.world.model_dump()}


def step(env: TextEnv, action: str) -> dict[str, Any]:
    """One action, and what is then seen."""
    _, reward, terminated, truncated, info = env.step(action)
    return view(env) | {
        "reward": float(reward),
        "terminated": bool(terminated),
        "truncated": bool(truncated),
        "info": StepInfo.model_validate(info).model_dump(),
    }


def serve(connection: socket.socket, job: dict[str, Any]) -> None:
    """A child's life: make the environment, do what is asked, go when nobody listens any more."""
    try:
        with _at_most(job["start_timeout"]):
            env = envs.make(job["name"], job["settings"])
            env.prepare()
    except BaseException as error:  # noqa: BLE001 an environment is anybody's code, and what it raises is reported
        send(connection, {"error": said(error)})
        return
    send(connection, {"made": time.monotonic()})
    while True:
        try:
            call, arguments = receive(connection)
        except EOFError:
            break
        try:
            with _at_most(job["step_timeout"]):
                answer = reset(env, *arguments) if call == "reset" else step(env, *arguments)
        except BaseException as error:  # noqa: BLE001 as above; an environment may even ask to exit
            answer = {"error": said(error)}
        send(connection, answer)
    with _at_most(_LAST_WORDS):
        env.close()


class SandboxHost:
    """The host's own life: it answers commands and keeps account of its children."""

    def __init__(self, control: socket.socket, job: dict[str, Any]) -> None:
        self.control, self.job = control, job
        self.alive: dict[int, int] = {}  # number → process id, until it was waited for
        self.statuses: dict[int, int] = {}  # number → wait status, until somebody asks or forgets

    def run(self) -> None:
        """Until the control socket closes. Then children have a moment to go by themselves."""
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
                    send(self.control, {"status": self._end(number, patience=0)})
                case b"W":
                    send(self.control, {"status": self._end(number, patience=0.5)})
                case b"F":
                    self.statuses.pop(number, None)
        deadline = time.monotonic() + _LAST_WORDS + _GRACE
        while self.alive and time.monotonic() < deadline:
            time.sleep(0.02)
            self._reap()
        for number in list(self.alive):
            self._end(number, patience=0)

    def _start(self, number: int, descriptor: int) -> None:
        try:
            process = os.fork()
        except OSError as error:  # no memory or too many processes: whoever waits finds the connection closed
            print(f"no process for another environment: {error}", file=sys.stderr, flush=True)  # noqa: T201
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
            pass  # nobody waits for the answer any more
        except BaseException:  # noqa: BLE001 the process ends here, and its exit status is all that is left to tell
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    def _reap(self) -> None:
        for number, process in list(self.alive.items()):
            found, status = os.waitpid(process, os.WNOHANG)
            if found:
                self._gone(number, status)

    def _gone(self, number: int, status: int) -> None:
        del self.alive[number]
        self.statuses[number] = os.waitstatus_to_exitcode(status)

    def _end(self, number: int, patience: float) -> int | None:
        """Its exit status, negative for a signal; killed with all it started if it has not ended after a moment."""
        deadline = time.monotonic() + patience
        while number in self.alive and time.monotonic() < deadline:
            time.sleep(0.005)
            self._reap()
        if number in self.alive:
            process = self.alive[number]
            try:
                os.killpg(process, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):  # macOS refuses a group of the dead
                os.kill(process, signal.SIGKILL)
            self._gone(number, os.waitpid(process, 0)[1])
        return self.statuses.pop(number, None)


def _lead_group(process: int) -> None:
    """Put a child into a group of its own, so that what it starts can be ended with it. Done on both sides."""
    try:
        os.setpgid(process, process)
    except (PermissionError, ProcessLookupError):
        pass


def main() -> None:
    """Make one environment, so that what all of them need is loaded before the first fork; then serve."""
    for interruption in (signal.SIGINT, signal.SIGTERM):  # whoever owns the control socket decides when it is over
        signal.signal(interruption, signal.SIG_IGN)
    control = socket.socket(fileno=int(sys.argv[1]))
    job = receive(control)
    try:
        with _at_most(job["start_timeout"]):
            env = envs.make(job["name"], job["settings"])
            env.prepare()
            env.close()
    except BaseException as error:  # noqa: BLE001 as in serve
        send(control, {"error": said(error)})
        return
    gc.collect()
    gc.freeze()  # the collector would touch, and so copy, every page that children share
    send(control, {"made": time.monotonic()})
    SandboxHost(control, job).run()


if __name__ == "__main__":
    main()
