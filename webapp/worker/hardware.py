"""Hardware of a worker's machine: GPUs or processor cores, total and free memory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypedDict

from trainer.memory import available, gpu_usage

MIB = 2**20


class Memory(TypedDict):
    """Memory of the machine or of one GPU, in bytes."""

    name: str
    total: int
    free: int


class GpuInfo(TypedDict):
    """A GPU that this process may use: the driver's number, and bytes where the driver reports them."""

    id: str
    name: str
    total: int | None
    free: int | None


def describe_device(gpus: Sequence[GpuInfo]) -> str:
    """Return the text for pages: the GPUs of this machine, or its processor cores."""
    return ", ".join(gpu["name"] for gpu in gpus) if gpus else f"CPU, {os.cpu_count()} cores"


def describe_memory(gpus: Sequence[GpuInfo]) -> list[Memory]:
    """Return the machine's memory if it is known, then the memory of each GPU."""
    machine: list[Memory] = []
    if sizes := available.available_memory():
        machine = [{"name": "Machine", "total": sizes[1], "free": sizes[0]}]
    return machine + [
        {"name": gpu["name"], "total": gpu["total"], "free": gpu["free"]}
        for gpu in gpus
        if gpu["total"] is not None and gpu["free"] is not None
    ]


def describe_gpus() -> list[GpuInfo]:
    """Return the GPUs that CUDA_VISIBLE_DEVICES leaves to this process; all GPUs without it."""
    rows = [row for line in gpu_usage.query_gpus("index,uuid,name,memory.total,memory.free") if (row := _gpu(line))]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return [gpu for _, gpu in rows]
    by_name = {name: gpu for uuid, gpu in rows for name in (gpu["id"], uuid)}
    names = [name.strip() for name in visible.split(",") if name.strip()]
    return [by_name[name] for name in names if name in by_name]


def environment(gpus: Sequence[str]) -> dict[str, str]:
    """Return environment variables that make only these GPUs visible to a process."""
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(gpus)}


def _gpu(line: str) -> tuple[str, GpuInfo] | None:
    """Parse "0, GPU-1b…, NVIDIA A100, 81920, 80000" (MiB) into (UUID, GPU); sizes are None for "[N/A]"."""
    first, _, rest = line.partition(",")
    uuid, _, rest = rest.partition(",")
    parts = [part.strip() for part in rest.rsplit(",", 2)]
    if not first.strip().isdecimal() or len(parts) != 3:
        return None
    total, free = (int(part) * MIB if part.isdecimal() else None for part in parts[1:])
    return uuid.strip(), {"id": first.strip(), "name": parts[0], "total": total, "free": free}
