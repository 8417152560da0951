"""System metrics of a recorded run: processor, memory and GPUs, sampled by a thread between two calls of log()."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

try:
    from resource import RUSAGE_SELF, getpagesize, getrusage
except ImportError:  # on Windows, where memory is not measured
    _CAN_MEASURE_MEMORY = False
else:
    _CAN_MEASURE_MEMORY = True

QUERY_SECONDS = 10.0
INTERVAL = 5.0
"""Seconds between two samples."""
SHORTEST = 1.0
"""An iteration that is shorter, in seconds, gets no system metrics."""
_STATM = Path("/proc/self/statm")
_QUERY = ("nvidia-smi", "--query-gpu=utilization.gpu,memory.used", "--format=csv,noheader,nounits")


class SystemWatch:
    """Measures this process, and the GPUs of the machine, until it is closed. Nothing here raises."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._memory: list[float] = []
        self._utilization: list[float] = []
        self._gpu_memory: list[float] = []
        self._has_gpus = True
        self._since, self._cpu = time.monotonic(), _cpu_seconds()
        self._thread = threading.Thread(target=self._run, name="echoscope system metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread, which may still be taking a sample."""
        self._closed.set()

    def collect(self) -> dict[str, float]:
        """Return system/* since the last call; empty if that was less than SHORTEST seconds ago."""
        with self._lock:
            seconds = time.monotonic() - self._since
            if seconds < SHORTEST:
                return {}
            cpu = _cpu_seconds()
            values = {"system/cpu_percent": 100 * max(0.0, cpu - self._cpu) / seconds}
            if peak := max([*self._memory, _resident_bytes()]):
                values["system/memory_bytes"] = peak
            if self._utilization:
                values["system/gpu_utilization"] = sum(self._utilization) / len(self._utilization)
                values["system/gpu_memory_bytes"] = max(self._gpu_memory)
            self._since, self._cpu = time.monotonic(), cpu
            self._memory, self._utilization, self._gpu_memory = [], [], []
        return values

    def _run(self) -> None:
        while not self._closed.wait(INTERVAL):
            memory, gpus = _resident_bytes(), self._gpus()
            with self._lock:
                self._memory.append(memory)
                if gpus:
                    self._utilization.append(sum(share for share, _ in gpus) / len(gpus))
                    self._gpu_memory.append(sum(used for _, used in gpus))

    def _gpus(self) -> list[tuple[float, float]]:
        """Return (utilization from 0 to 1, bytes used) of each GPU; after a failure no more attempts are made."""
        if not self._has_gpus:
            return []
        try:
            done = subprocess.run(
                _QUERY, capture_output=True, text=True, timeout=QUERY_SECONDS, stdin=subprocess.DEVNULL
            )
            rows = [line.split(",") for line in done.stdout.splitlines() if line.strip()]
            found = [(float(share) / 100, float(used) * 2**20) for share, used in rows]
        except (OSError, subprocess.SubprocessError, ValueError):
            found = []
        self._has_gpus = bool(found)
        return found


def _cpu_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _resident_bytes() -> float:
    """Return the resident memory of this process; on systems without /proc, its largest so far; 0 if unknown."""
    if not _CAN_MEASURE_MEMORY:
        return 0.0
    try:
        return float(_STATM.read_text().split()[1]) * getpagesize()
    except (OSError, ValueError, IndexError):
        peak = getrusage(RUSAGE_SELF).ru_maxrss
        return float(peak if sys.platform == "darwin" else peak * 1024)
