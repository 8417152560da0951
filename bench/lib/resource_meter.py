"""Wall-clock time, CPU time and peak memory of a process or of a GPU allocator."""

from __future__ import annotations

import ctypes
import re
import resource
import sys
import time
from pathlib import Path

import torch

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def resident() -> int:
    """Return the resident bytes of this process; its peak if the current value is unavailable."""
    return _status("VmRSS") if _STATUS.exists() else _ever()


class Peak:
    """Peak bytes above `base`, the memory in use at construction: libraries, and nothing on a GPU."""

    def __init__(self, device: str) -> None:
        self.gpu = device.startswith("cuda")
        self.base = 0 if self.gpu else resident()

    def start(self) -> None:
        """Reset the peak. If the system cannot, it remains the peak of the process's lifetime."""
        if self.gpu:
            torch.cuda.reset_peak_memory_stats()
        elif _CLEAR.exists():
            _trim_heap()
            try:
                _CLEAR.write_text("5", encoding="ascii")
            except PermissionError:
                pass

    def most(self) -> int:
        """Return bytes above the base since `start`."""
        if self.gpu:
            return torch.cuda.max_memory_allocated()
        return (_status("VmHWM") if _STATUS.exists() else _ever()) - self.base


class Clock:
    """Measures from construction to `stop`."""

    def __init__(self, peak: Peak) -> None:
        self.peak = peak
        peak.start()
        self.started, self.worked = time.perf_counter(), time.process_time()

    def stop(self, rollout: float = 0.0) -> dict[str, float]:
        """Return seconds in total, `rollout` of them before the update; CPU seconds of all threads; peak bytes."""
        if self.peak.gpu:
            torch.cuda.synchronize()
        seconds, cpu = time.perf_counter() - self.started, time.process_time() - self.worked
        update = seconds - rollout
        return {"seconds": seconds, "rollout": rollout, "update": update, "cpu": cpu, "peak": float(self.peak.most())}


def _trim_heap() -> None:
    """Return freed memory to the system: the C library would otherwise count it as used."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _status(name: str) -> int:
    match = re.search(rf"^{name}:\s+(\d+) kB", _STATUS.read_text(encoding="ascii", errors="replace"), re.MULTILINE)
    return int(match[1]) * 1024 if match else _ever()


def _ever() -> int:
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
