"""What a stretch of work took: seconds, processor time, and the most memory that the process or a GPU's allocator held.

What the work is stands elsewhere.
"""

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
    """Bytes this process holds now; the most it ever held where that cannot be told."""
    return _status("VmRSS") if _STATUS.exists() else _ever()


class Peak:
    """Bytes above `base`, which is what was held when this was made: libraries, and on a GPU nothing."""

    def __init__(self, device: str) -> None:
        self.gpu = device.startswith("cuda")
        self.base = 0 if self.gpu else resident()

    def start(self) -> None:
        """Forget earlier peaks. Where the system cannot, the peak is that of the process's whole life."""
        if self.gpu:
            torch.cuda.reset_peak_memory_stats()
        elif _CLEAR.exists():
            _give_back()
            try:
                _CLEAR.write_text("5", encoding="ascii")
            except PermissionError:
                pass

    def most(self) -> int:
        """Bytes above the base since `start`."""
        if self.gpu:
            return torch.cuda.max_memory_allocated()
        return (_status("VmHWM") if _STATUS.exists() else _ever()) - self.base


class Clock:
    """Runs from when it is made until `stop`."""

    def __init__(self, peak: Peak) -> None:
        self.peak = peak
        peak.start()
        self.started, self.worked = time.perf_counter(), time.process_time()

    def stop(self, rollout: float = 0.0) -> dict[str, float]:
        """Seconds in all, `rollout` of them before the update; seconds of all threads' work; bytes."""
        if self.peak.gpu:
            torch.cuda.synchronize()
        seconds, cpu = time.perf_counter() - self.started, time.process_time() - self.worked
        update = seconds - rollout
        return {"seconds": seconds, "rollout": rollout, "update": update, "cpu": cpu, "peak": float(self.peak.most())}


def _give_back() -> None:
    """Freed memory that the C library still holds would count as used."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _status(name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB", _STATUS.read_text(encoding="ascii", errors="replace"), re.MULTILINE)
    return int(found[1]) * 1024 if found else _ever()


def _ever() -> int:
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
