"""GPUs: utilization, used memory and names of the machine's from nvidia-smi, and the memory of this process."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

_NVIDIA_SMI = "nvidia-smi"
_NVIDIA_SMI_TIMEOUT = 10
_MIB = 2**20


def visible_gpus() -> list[tuple[float, int]]:
    """(utilization from 0 to 1, bytes used) of the NVIDIA GPUs that CUDA_VISIBLE_DEVICES leaves to this process."""
    return parse_gpus(query_gpus("index,uuid,utilization.gpu,memory.used"), os.environ.get("CUDA_VISIBLE_DEVICES"))


def reserved_gpu_bytes() -> int:
    """The most that PyTorch has reserved on GPUs in this process since it started, in bytes; 0 if it uses none."""
    import torch  # by the time this is called, a trainer has it loaded

    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return 0
    return sum(torch.cuda.max_memory_reserved(device) for device in range(torch.cuda.device_count()))


def gpu_names() -> list[str]:
    """Model names of all NVIDIA GPUs of the machine, such as "NVIDIA H200"."""
    return [name for name in query_gpus("name") if name]


def shared_by_mps() -> bool:
    """Whether the control daemon of NVIDIA's Multi-Process Service runs, by its pipe."""
    return Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"), "control").exists()


def query_gpus(fields: str) -> list[str]:
    """One line for each GPU of the machine, with these fields of nvidia-smi, comma-separated and without units.

    None without the program, or where it fails.
    """
    if not shutil.which(_NVIDIA_SMI):
        return []
    command = [_NVIDIA_SMI, f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_NVIDIA_SMI_TIMEOUT)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [line.strip() for line in done.stdout.splitlines()] if done.returncode == 0 else []


def parse_gpus(lines: Iterable[str], visible: str | None) -> list[tuple[float, int]]:
    """The same from lines such as "0, GPU-1b…, 87, 41000" (percent, MiB); GPUs that report "[N/A]" are left out."""
    names = None if visible is None else {name.strip() for name in visible.split(",")}
    found = []
    for line in lines:
        parts = [part.strip() for part in line.split(",")]
        if len(parts) != 4 or not (parts[2].isdecimal() and parts[3].isdecimal()):
            continue
        if names is None or names & set(parts[:2]):
            found.append((int(parts[2]) / 100, int(parts[3]) * _MIB))
    return found
