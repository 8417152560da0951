"""How much memory this machine has left for a run on its processor: the container's where it has a limit of its own.

GPUs are asked by whoever may import torch (memory_guard.py).
"""

from __future__ import annotations

from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")
_MEMORY = Path("/proc/meminfo")


def available_memory() -> tuple[int, int] | None:
    """(free, total) bytes; None where the machine does not tell."""
    try:
        lines = _MEMORY.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    facts = {name: int(rest.split()[0]) * 1024 for name, _, rest in (line.partition(":") for line in lines) if rest}
    if not {"MemTotal", "MemAvailable"} <= facts.keys():
        return None
    free, total = facts["MemAvailable"], facts["MemTotal"]
    limit, used = _number(_CGROUP / "memory.max"), _number(_CGROUP / "memory.current")
    if limit is not None and used is not None and limit < total:
        free, total = min(free, max(0, limit - used + _reclaimable())), limit
    return free, total


def _reclaimable() -> int:
    """Bytes of cached files that a container's count of used memory includes and that are given up when needed."""
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
