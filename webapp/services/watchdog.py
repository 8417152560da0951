"""Watchdog: kills the process groups if the supervisor dies.

Runs as a separate script with the standard library only. The supervisor writes the live process groups to its standard
input ("+123 15": group and its stop signal; "-123"). End of file means that the supervisor is gone.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

STOP_TIMEOUT = 15.0


def follow(lines: Iterable[bytes]) -> dict[int, int]:
    """Return the process groups still registered at the end of the input, each with its stop signal."""
    groups: dict[int, int] = {}
    for line in lines:
        text = line.decode().strip()
        if text.startswith("+"):
            pid, _, stop_signal = text[1:].partition(" ")
            groups[int(pid)] = int(stop_signal)
        elif text.startswith("-"):
            groups.pop(int(text[1:]), None)
    return groups


def end(groups: dict[int, int], seconds: float = STOP_TIMEOUT) -> None:
    """Send every group its stop signal, and SIGKILL after `seconds`."""
    remaining = {pid for pid, stop_signal in groups.items() if _signal(pid, stop_signal)}
    deadline = time.monotonic() + seconds
    while remaining and time.monotonic() < deadline:
        time.sleep(0.1)
        remaining = {pid for pid in remaining if _signal(pid, 0)}
    for pid in remaining:
        _signal(pid, signal.SIGKILL)


def _signal(group: int, number: int) -> bool:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


class Watchdog:
    """The supervisor's side: starts the script and reports the groups."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(__file__).resolve())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def add(self, group: int, stop_signal: signal.Signals) -> None:
        self._write(f"+{group} {int(stop_signal)}")

    def remove(self, group: int) -> None:
        self._write(f"-{group}")

    def close(self) -> None:
        """Close the input: groups still registered are ended."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            pass
        self._process.wait()

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:  # it was killed; on Linux the programs still die with their parent
            pass


if __name__ == "__main__":
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    end(follow(sys.stdin.buffer))
