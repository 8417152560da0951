"""What a worker's machine has: its GPUs or processor cores, and how much memory is free. Nothing is kept here."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from typing import TypedDict

from trainer.memory import available

ASK_SECONDS = 10
MIB = 2**20


class Memory(TypedDict):
    """Bytes of the machine or of one GPU."""

    name: str
    total: int
    free: int


class GpuInfo(TypedDict):
    """A GPU that this process may use: its number as NVIDIA's driver counts, bytes where it tells them."""

    id: str
    name: str
    total: int | None
    free: int | None


def describe_device(gpus: Sequence[GpuInfo]) -> str:
    """For people: the GPUs of this machine, or its processor cores."""
    return ", ".join(gpu["name"] for gpu in gpus) if gpus else f"CPU, {os.cpu_count()} cores"


def describe_memory(gpus: Sequence[GpuInfo]) -> list[Memory]:
    """The machine's memory where it can be told, then that of each GPU."""
    machine: list[Memory] = []
    if known := available.available_memory():
        machine = [{"name": "Machine", "total": known[1], "free": known[0]}]
    return machine + [
        {"name": gpu["name"], "total": gpu["total"], "free": gpu["free"]}
        for gpu in gpus
        if gpu["total"] is not None and gpu["free"] is not None
    ]


def describe_gpus() -> list[GpuInfo]:
    """The GPUs of this machine that CUDA_VISIBLE_DEVICES leaves to this process; all of them without it."""
    found = [both for line in _nvidia("index,uuid,name,memory.total,memory.free") if (both := _gpu(line))]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return [gpu for _, gpu in found]
    known = {name: gpu for uuid, gpu in found for name in (gpu["id"], uuid)}
    words = [word.strip() for word in visible.split(",") if word.strip()]
    return [known[word] for word in words if word in known]


def environment(gpus: Sequence[str]) -> dict[str, str]:
    """What makes a process see those GPUs and no other."""
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(gpus)}


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


def _gpu(line: str) -> tuple[str, GpuInfo] | None:
    """(UUID, GPU) from "0, GPU-1b…, NVIDIA A100, 81920, 80000" (MiB); sizes are None where it says "[N/A]"."""
    first, _, rest = line.partition(",")
    uuid, _, rest = rest.partition(",")
    parts = [part.strip() for part in rest.rsplit(",", 2)]
    if not first.strip().isdecimal() or len(parts) != 3:
        return None
    total, free = (int(part) * MIB if part.isdecimal() else None for part in parts[1:])
    return uuid.strip(), {"id": first.strip(), "name": parts[0], "total": total, "free": free}
