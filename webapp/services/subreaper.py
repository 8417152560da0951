"""Subreaper: on Linux the supervisor adopts processes whose parent died, and waits for them.

A trainer whose worker was killed is such a process: the kernel signals it, it writes its checkpoint and exits.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
ORPHAN_TIMEOUT = 30.0


def become_subreaper() -> None:
    """Adopt descendants that lose their parent (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children() -> set[int]:
    """Return process ids of this process's children, including zombies; empty without /proc."""
    pids: set[int] = set()
    for file in Path("/proc/self/task").glob("*/children"):
        pids.update(int(word) for word in file.read_text().split())
    return pids


def wait_for_orphans(*managed_pids: int, timeout: float = ORPHAN_TIMEOUT) -> None:
    """Wait for reparented children, SIGKILL after `timeout`; ignore `managed_pids`."""
    deadline = time.monotonic() + timeout
    while left := reap(*managed_pids):
        if time.monotonic() > deadline:
            for pid in left:
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def reap(*managed_pids: int) -> set[int]:
    """Reap reparented children that ended. Returns the running ones."""
    left = set()
    for pid in children() - set(managed_pids):
        try:
            ended, _ = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            continue
        if not ended:
            left.add(pid)
    return left
