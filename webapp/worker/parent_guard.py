"""Exec shim: dies with the supervisor (PR_SET_PDEATHSIG), records its pid, limits itself, then execs the trainer.

Run as a script: `python parent_guard.py PARENT PIDFILE FILE_BYTES command…`. Standard library only, so that it starts
within milliseconds. Also finds and kills trainers that outlived their supervisor.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

PR_SET_PDEATHSIG = 1
INTERRUPTED = 75  # equals the value in trainer.journal.protocol, which a script of the standard library cannot import
KILL_TIMEOUT = 10.0
ORPHAN_TIMEOUT = 15.0
"""Seconds for a trainer to end after its supervisor, whose death sends it SIGTERM."""
OOM_SCORE = "500"
"""Out of 1000: if memory runs out, Linux ends a trainer, which can resume, before the database or the web server."""
TAG = "ECHOSCOPE_TRAINER"
"""Environment variable of a trainer and all processes that it started, even in other sessions."""


class StaleTrainer(Exception):
    """An earlier trainer still runs and cannot be killed."""


def start_time(pid: int) -> str:
    """Return a process's start time, to recognise a reused pid; empty if there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        fields = stat[stat.rindex(")") + 2 :].split()
        return "" if fields[0] in "ZX" else fields[19]
    except (ProcessLookupError, PermissionError):  # ended meanwhile, or another account's, which hidepid hides
        return ""
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return ""
    listing = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True)
    return listing.stdout.strip()


def stale_trainer(pid_file: Path) -> int | None:
    """Return the pid of the trainer recorded in the file, if it still runs on this machine."""
    try:
        record = json.loads(pid_file.read_text(encoding="utf-8"))
        pid, born = int(record["pid"]), str(record["born"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    is_same = record.get("host") == socket.gethostname() and born and start_time(pid) == born
    return pid if is_same else None


def tagged_processes(tag: str) -> list[int]:
    """Return the pids of running processes with this tag; empty on systems without /proc."""
    variable = f"{TAG}={tag}".encode()
    return [pid for pid in _pids() if variable in _environment(pid)] if tag else []


def kill_tagged(tag: str) -> None:
    """Send SIGKILL to all processes with this tag."""
    for pid in tagged_processes(tag):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def _pids() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    except FileNotFoundError:
        return []


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return []


def kill_stale_trainer(pid_file: Path, timeout: float) -> bool:
    """End an earlier trainer of this folder: SIGTERM, then SIGKILL after `timeout` seconds. True if there was one.

    Raises:
        StaleTrainer: it survives both.
    """
    had_leftovers = kill_leftovers(pid_file)
    pid = stale_trainer(pid_file)
    if pid is None:
        return had_leftovers
    for number, seconds in ((signal.SIGTERM, timeout), (signal.SIGKILL, KILL_TIMEOUT)):
        try:
            os.killpg(pid, number)
        except ProcessLookupError:
            kill_leftovers(pid_file)
            return True
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if stale_trainer(pid_file) is None:
                kill_leftovers(pid_file)
                return True
            time.sleep(0.05)
    raise StaleTrainer(f"process {pid} of an earlier attempt does not stop")


def kill_leftovers(pid_file: Path) -> bool:
    """Kill the processes that a dead trainer started on this machine. Returns True if there were any."""
    try:
        record = json.loads(pid_file.read_text(encoding="utf-8"))
        tag = str(record["mark"]) if record["host"] == socket.gethostname() else ""
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return False
    if stale_trainer(pid_file) is not None or not tagged_processes(tag):
        return False
    kill_tagged(tag)
    return True


def main(parent: int, pid_file: Path, file_bytes: int, command: list[str]) -> None:
    """Become the trainer, which writes private files of at most `file_bytes` (0: no limit), and no cores."""
    os.umask(0o077)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):  # no Linux, or a container that forbids it
        Path("/proc/self/oom_score_adj").write_text(OOM_SCORE)
    if file_bytes:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    if os.getppid() != parent:  # the supervisor has already died
        sys.exit(INTERRUPTED)
    new = pid_file.with_suffix(".new")
    record = {"pid": os.getpid(), "born": start_time(os.getpid()), "host": socket.gethostname()}
    new.write_text(json.dumps(record | {"mark": os.environ.get(TAG, "")}), encoding="utf-8")
    new.replace(pid_file)
    os.execv(command[0], command)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
