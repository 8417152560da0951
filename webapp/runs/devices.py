"""What a worker's machine has: its GPUs or processor cores, and how much memory is free. Nothing is kept here."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TypedDict

ASK_SECONDS = 10
MIB = 2**20
_CGROUP = Path("/sys/fs/cgroup")


class Memory(TypedDict):
    """Bytes of the machine or of one GPU."""

    name: str
    total: int
    free: int


def describe_device() -> str:
    """For people: the GPUs of this machine, or its processor cores."""
    names = [line for line in _nvidia("name") if line]
    return ", ".join(names) if names else f"CPU, {os.cpu_count()} cores"


def describe_memory() -> list[Memory]:
    """The machine's memory where it can be told, then that of each GPU."""
    machine = _machine()
    return ([machine] if machine else []) + [
        gpu for line in _nvidia("name,memory.total,memory.free") if (gpu := _gpu(line))
    ]


def _nvidia(query: str) -> list[str]:
    """Lines of nvidia-smi; none where there is no such program, or it does not answer."""
    if not shutil.which("nvidia-smi"):
        return []
    command = ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits"]
    try:
        asked = subprocess.run(command, capture_output=True, text=True, timeout=ASK_SECONDS)
    except subprocess.TimeoutExpired:
        return []
    return [line.strip() for line in asked.stdout.splitlines()] if asked.returncode == 0 else []


def _gpu(line: str) -> Memory | None:
    """From "NVIDIA A100, 81920, 80000" (MiB); None where a number is missing ("[N/A]")."""
    parts = line.rsplit(",", 2)
    if len(parts) != 3 or not (parts[1].strip().isdecimal() and parts[2].strip().isdecimal()):
        return None
    return {"name": parts[0].strip(), "total": int(parts[1]) * MIB, "free": int(parts[2]) * MIB}


def _machine() -> Memory | None:
    """Of the machine, or of the container where it has a limit of its own."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    facts = {name: int(rest.split()[0]) * 1024 for name, _, rest in (line.partition(":") for line in lines) if rest}
    if not {"MemTotal", "MemAvailable"} <= facts.keys():
        return None
    total, free = facts["MemTotal"], facts["MemAvailable"]
    limit, current = _number(_CGROUP / "memory.max"), _number(_CGROUP / "memory.current")
    if limit is not None and current is not None and limit < total:
        total, free = limit, min(free, max(0, limit - current))
    return {"name": "Machine", "total": total, "free": free}


def _number(path: Path) -> int | None:
    try:
        text = path.read_text(encoding="ascii").strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None
