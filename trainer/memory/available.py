"""Available host memory, honouring cgroup limits, and the return of freed memory to the system."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import psutil

_CGROUP = Path("/sys/fs/cgroup")
_MEMORY = Path("/proc/meminfo")


def available_memory() -> tuple[int, int] | None:
    """(free, total) bytes; None if unknown. Systems without /proc, such as macOS, have no cgroups either."""
    try:
        lines = _MEMORY.read_text(encoding="ascii").splitlines()
    except OSError:
        memory = psutil.virtual_memory()
        return memory.available, memory.total
    fields = {name: int(rest.split()[0]) * 1024 for name, _, rest in (line.partition(":") for line in lines) if rest}
    if not {"MemTotal", "MemAvailable"} <= fields.keys():
        return None
    free, total = fields["MemAvailable"], fields["MemTotal"]
    limit, used = _number(_CGROUP / "memory.max"), _number(_CGROUP / "memory.current")
    if limit is not None and used is not None and limit < total:
        free, total = min(free, max(0, limit - used + _reclaimable())), limit
    return free, total


def resident_memory() -> int:
    """Bytes of this process's resident set."""
    return int(psutil.Process().memory_info().rss)


def trim_heap() -> None:
    """Return freed pages of the C library's heap to the system; without glibc a no-op.

    Between two phases of a run its freed tensors would otherwise stay resident beside those of the next phase, which
    have other sizes and do not fit into the gaps.
    """
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
        trim(0)


def _reclaimable() -> int:
    """Bytes of the page cache that the container's usage includes and the kernel can reclaim."""
    try:
        lines = (_CGROUP / "memory.stat").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("inactive_file ")), 0)


def _number(path: Path) -> int | None:
    try:
        text = path.read_text(encoding="ascii").strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None
