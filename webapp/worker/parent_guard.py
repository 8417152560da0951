"""Between a supervisor and its trainer: notes who it is, ties its life to the supervisor's, becomes the trainer.

Run as a script: `python leash.py PARENT PIDFILE command…`. Only the standard library, so that it starts within
milliseconds. Recognising and ending a trainer that was left behind lives here too.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

PR_SET_PDEATHSIG = 1
INTERRUPTED = 75  # as in trainer.journal.protocol, which a script of the standard library alone cannot import
MARK = "ECHOSCOPE_TRAINER"
"""Variable that a trainer and all that it starts have in common, in whatever session: torchrun gives each its own."""


class StaleTrainer(Exception):
    """An earlier trainer still lives and cannot be ended."""


def start_time(pid: int) -> str:
    """What distinguishes this process from a later one with the same number; empty if there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        fields = stat[stat.rindex(")") + 2 :].split()
        return "" if fields[0] in "ZX" else fields[19]
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return ""
    told = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True)
    return told.stdout.strip()


def stale_trainer(pid_file: Path) -> int | None:
    """The process noted in the file, if it still lives on this machine."""
    try:
        noted = json.loads(pid_file.read_text(encoding="utf-8"))
        pid, born = int(noted["pid"]), str(noted["born"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    ours = noted.get("host") == socket.gethostname() and born and start_time(pid) == born
    return pid if ours else None


def children(pid: int) -> list[int]:
    """The living processes whose parent it is."""
    if Path("/proc/self/stat").exists():
        return [one for one in _numbers() if _parent(one) == pid]
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True).stdout.split()
    return [int(one) for one, parent in zip(listed[::2], listed[1::2], strict=True) if int(parent) == pid]


def tagged_processes(mark: str) -> list[int]:
    """The living processes that carry the mark; none where the system does not tell (it does on Linux)."""
    wanted = f"{MARK}={mark}".encode()
    return [one for one in _numbers() if wanted in _environment(one)] if mark else []


def kill_tagged(mark: str) -> None:
    """Kill -9 for all of them."""
    for pid in tagged_processes(mark):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def _numbers() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    except FileNotFoundError:
        return []


def _parent(pid: int) -> int | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, parent = stat[stat.rindex(")") + 2 :].split()[:2]
    return None if state in "ZX" else int(parent)


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return []


def kill_stale_trainer(pid_file: Path, patience: float) -> bool:
    """Make sure that no earlier trainer writes into this folder: ask it, then insist. True if there was one."""
    others = kill_worker_ranks(pid_file)
    pid = stale_trainer(pid_file)
    if pid is None:
        return others
    for number, seconds in ((signal.SIGTERM, patience), (signal.SIGKILL, 10.0)):
        try:
            os.killpg(pid, number)
        except ProcessLookupError:
            kill_worker_ranks(pid_file)
            return True
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if stale_trainer(pid_file) is None:
                kill_worker_ranks(pid_file)
                return True
            time.sleep(0.05)
    raise StaleTrainer(f"process {pid} of an earlier attempt does not end")


def kill_worker_ranks(pid_file: Path) -> bool:
    """End what a trainer that is gone had started, on this machine. True if there was anything."""
    try:
        noted = json.loads(pid_file.read_text(encoding="utf-8"))
        mark = str(noted["mark"]) if noted["host"] == socket.gethostname() else ""
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return False
    if stale_trainer(pid_file) is not None or not tagged_processes(mark):
        return False
    kill_tagged(mark)
    return True


def main(parent: int, pid_file: Path, command: list[str]) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    if os.getppid() != parent:  # it died in between
        sys.exit(INTERRUPTED)
    fresh = pid_file.with_suffix(".new")
    facts = {"pid": os.getpid(), "born": start_time(os.getpid()), "host": socket.gethostname()}
    fresh.write_text(json.dumps(facts | {"mark": os.environ.get(MARK, "")}), encoding="utf-8")
    fresh.replace(pid_file)
    os.execv(command[0], command)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
