"""Child processes: start, readiness, stop and log of one program."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from trainer.journal.disk_space import is_full
from webapp.services.liveness_checks import LivenessAnswer
from webapp.services.unprivileged_user import Account, child_setup

LOG_BYTES = 8_000_000


@dataclass(frozen=True)
class Program:
    """Definition of a program.

    Attributes:
        ready: returns True if it can be used, after its start.
        alive: returns the answer of the running program to a liveness check.
        foundation: True if others need it for their shutdown: stopped last.
        prepare: runs before each start, for example to remove leftovers of a crash.
    """

    name: str
    argv: Sequence[str]
    log: Path
    ready: Callable[[], bool]
    alive: Callable[[], LivenessAnswer] = lambda: LivenessAnswer.YES
    env: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    stop_seconds: float = 10.0
    account: Account | None = None
    foundation: bool = False
    prepare: Callable[[], None] = lambda: None


class NotReady(RuntimeError):
    """A program exited or did not become ready in time. The message includes the tail of its log."""


def spawn(program: Program) -> subprocess.Popen[bytes]:
    """Start the program in its own session (Ctrl-C in a terminal does not reach it); output goes to its log."""
    program.prepare()
    with _open_log(program.log) as log:
        return subprocess.Popen(
            program.argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=program.folder,
            env={**os.environ, **program.env},
            start_new_session=True,
            preexec_fn=child_setup(program.account, program.stop_signal),
        )


def wait_ready(program: Program, process: subprocess.Popen[bytes], seconds: float) -> None:
    """Wait until the program is ready. Raises NotReady when it exited or `seconds` have passed."""
    deadline = time.monotonic() + seconds
    while not program.ready():
        if process.poll() is not None:
            raise NotReady(f"{program.name} ended ({ending(process)}).\n{tail(program.log)}")
        if time.monotonic() > deadline:
            raise NotReady(f"{program.name} did not answer within {seconds:.0f} s.\n{tail(program.log)}")
        time.sleep(0.05)


def send_stop_signal(program: Program, process: subprocess.Popen[bytes]) -> None:
    """Send the program's stop signal if it is still running."""
    if process.poll() is None:
        process.send_signal(program.stop_signal)


def finish(program: Program, process: subprocess.Popen[bytes]) -> bool:
    """Wait for a stopping program, SIGKILL its group after `stop_seconds`. True if it exited in time."""
    in_time = True
    try:
        process.wait(program.stop_seconds)
    except subprocess.TimeoutExpired:
        in_time = False
    kill_group(process.pid)
    process.wait()
    return in_time


def stop(program: Program, process: subprocess.Popen[bytes]) -> bool:
    """Stop the program. True if it exited in time."""
    send_stop_signal(program, process)
    return finish(program, process)


def kill_group(pid: int) -> None:
    """Send SIGKILL to the process group led by `pid`, if it still exists."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    except PermissionError:  # raised by macOS for a group of zombies
        pass


def ending(process: subprocess.Popen[bytes]) -> str:
    """Describe a process's exit status."""
    code = process.returncode
    if code is None:
        return "still running"
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def command_line(pid: int) -> str:
    """Return the command line of a running process; empty if it does not exist or is a zombie."""
    if Path("/proc/self/cmdline").exists():  # ps is missing in slim containers
        try:
            return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            return ""
    return subprocess.run(["ps", "-o", "args=", "-p", str(pid)], capture_output=True, text=True).stdout


def tail(log: Path, lines: int = 12) -> str:
    """Return the last lines of a log, preceded by its path."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return f"({log} does not exist)"
    return "\n".join([f"The end of {log}:", *("  " + line for line in text.splitlines()[-lines:])])


def _open_log(log: Path) -> BinaryIO:
    """Open the log to append to it, or nothing if a full disk prevents that, so that the program still starts."""
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        rotate(log)
        return log.open("ab")
    except OSError as error:
        if not is_full(error):
            raise
        return open(os.devnull, "ab")


def rotate(log: Path) -> None:
    """Copy a log of more than LOG_BYTES to `<name>.log.1` and empty it; its program goes on writing to it.

    On a full disk it is emptied without a copy, and the earlier copy is deleted to free space. Raises OSError.
    """
    if not log.exists() or log.stat().st_size <= LOG_BYTES:
        return
    old = log.with_suffix(".log.1")
    try:
        shutil.copyfile(log, old)
    except OSError as error:
        if not is_full(error):
            raise
        old.unlink(missing_ok=True)
    os.truncate(log, 0)
