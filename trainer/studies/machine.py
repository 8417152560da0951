"""Description of the machine for measured figures in benchmarks and studies."""

from __future__ import annotations

import os
import platform
import re
from collections import Counter
from functools import cache
from pathlib import Path

from trainer.memory.gpu_usage import gpu_names, shared_by_mps

_LOAD = ", load before the start"


@cache
def hardware() -> str:
    """Return `describe` without the load: the same text in all sessions on a machine."""
    text, _, _ = describe().partition(_LOAD)
    return text


def describe() -> str:
    """Describe GPUs (and whether processes share them by MPS), cores, processor, memory, versions and load."""
    info, memory = Path("/proc/cpuinfo"), Path("/proc/meminfo")
    text = info.read_text(encoding="utf-8") if info.exists() else ""
    name = re.search(r"model name\s*: (.+)", text)
    total = re.search(r"MemTotal:\s+(\d+)", memory.read_text(encoding="utf-8")) if memory.exists() else None
    gpus = Counter(gpu_names())
    parts = [
        *(f"{count} × {gpu}" for gpu, count in gpus.items()),
        "NVIDIA MPS" if gpus and shared_by_mps() else "",
        f"{os.cpu_count()} cores of {name[1] if name else platform.processor() or platform.machine()}"
        f"{' with AMX' if 'amx_tile' in text else ''}",
        f"{int(total[1]) / 2**20:.0f} GiB" if total else "",
        platform.system(),
        f"Python {platform.python_version()}",
    ]
    return f"{', '.join(part for part in parts if part)}{_LOAD} {os.getloadavg()[0]:.1f}"
