"""One program of the group: start, readiness, stop, log."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from webapp.services.unprivileged_user import Account, child_setup

LOG_BYTES = 8_000_000


@dataclass(frozen=True)
class Program:
    """Everything needed to run one program. `before` clears up what an earlier crash may have left."""

    name: str
    argv: Sequence[str]
    log: Path
    ready: Callable[[], bool]
    env: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    stop_seconds: float = 10.0
    account: Account | None = None
    foundation: bool = False  # others need it to end in good order, so it is stopped last
    before: Callable[[], None] = lambda: None


class NotReady(RuntimeError):
    """A program ended or stayed silent instead of serving. The message holds the tail of its log."""


def spawn(program: Program) -> subprocess.Popen[bytes]:
    """Start it in a session of its own (Ctrl-C in a terminal does not reach it), output appended to its log."""
    program.before()
    program.log.parent.mkdir(parents=True, exist_ok=True)
    _rotate(program.log)
    with program.log.open("ab") as log:
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
    """Return once it serves. Raises NotReady when it ended or `seconds` passed."""
    deadline = time.monotonic() + seconds
    while not program.ready():
        if process.poll() is not None:
            raise NotReady(f"{program.name} ended ({ending(process)}).\n{tail(program.log)}")
        if time.monotonic() > deadline:
            raise NotReady(f"{program.name} did not answer within {seconds:.0f} s.\n{tail(program.log)}")
        time.sleep(0.05)


def ask(program: Program, process: subprocess.Popen[bytes]) -> None:
    """Ask it to end."""
    if process.poll() is None:
        process.send_signal(program.stop_signal)


def finish(program: Program, process: subprocess.Popen[bytes]) -> bool:
    """Wait for one that was asked, insist after `stop_seconds`, end its whole group. True if it went by itself."""
    willing = True
    try:
        process.wait(program.stop_seconds)
    except subprocess.TimeoutExpired:
        willing = False
    kill_group(process.pid)
    process.wait()
    return willing


def stop(program: Program, process: subprocess.Popen[bytes]) -> bool:
    """Ask it to end and see that it does. True if it went by itself."""
    ask(program, process)
    return finish(program, process)


def kill_group(pid: int) -> None:
    """Kill -9 for everything in the process group that `pid` led; nothing if there is none left."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    except PermissionError:  # macOS says this of a group of zombies
        pass


def ending(process: subprocess.Popen[bytes]) -> str:
    """How a process ended, in words."""
    code = process.returncode
    if code is None:
        return "still running"
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def command_line(pid: int) -> str:
    """The command line of a running process; empty if there is no such process (or only its exit code is left)."""
    if Path("/proc/self/cmdline").exists():  # ps is missing in slim containers
        try:
            return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            return ""
    return subprocess.run(["ps", "-o", "args=", "-p", str(pid)], capture_output=True, text=True).stdout


def tail(log: Path, lines: int = 12) -> str:
    """The last lines of a log, with its path above."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return f"({log} does not exist)"
    return "\n".join([f"The end of {log}:", *("  " + line for line in text.splitlines()[-lines:])])


def _rotate(log: Path) -> None:
    if log.exists() and log.stat().st_size > LOG_BYTES:
        log.replace(log.with_suffix(".log.1"))
