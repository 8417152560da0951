"""Processes whose parent died: on Linux they come to the supervisor, which sees that they end. The programs themselves
are looked after in `supervisor`.

A trainer is such a process when its worker is killed: it is asked to end by the kernel, writes its checkpoint and goes.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
PATIENCE = 30.0


def become_subreaper() -> None:
    """From now on, descendants that lose their parent become children of this process. Does nothing but on Linux."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children() -> set[int]:
    """Process ids of this process's children, zombies included; empty where the system does not tell."""
    found: set[int] = set()
    for file in Path("/proc/self/task").glob("*/children"):
        found.update(int(word) for word in file.read_text().split())
    return found


def wait_for_orphans(*known: int, patience: float = PATIENCE) -> None:
    """Wait for adopted children to end, insist after `patience` seconds. `known` ones are somebody else's business."""
    deadline = time.monotonic() + patience
    while left := reap(*known):
        if time.monotonic() > deadline:
            for pid in left:
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def reap(*known: int) -> set[int]:
    """Collect the exit codes of adopted children that ended; the others are returned."""
    left = set()
    for pid in children() - set(known):
        try:
            ended, _ = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            continue
        if not ended:
            left.add(pid)
    return left
