"""Utilization and used memory of the machine's NVIDIA GPUs, from nvidia-smi."""

from __future__ import annotations

import os
import shutil
import subprocess

_NVIDIA_SMI = ("nvidia-smi", "--query-gpu=index,uuid,utilization.gpu,memory.used", "--format=csv,noheader,nounits")
_NVIDIA_SMI_TIMEOUT = 10
_MIB = 2**20


def visible_gpus() -> list[tuple[float, int]]:
    """(utilization from 0 to 1, bytes used) of the NVIDIA GPUs that CUDA_VISIBLE_DEVICES leaves to this process."""
    if not shutil.which(_NVIDIA_SMI[0]):
        return []
    try:
        done = subprocess.run(_NVIDIA_SMI, capture_output=True, text=True, timeout=_NVIDIA_SMI_TIMEOUT)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return parse_gpus(done.stdout, os.environ.get("CUDA_VISIBLE_DEVICES")) if done.returncode == 0 else []


def parse_gpus(text: str, visible: str | None) -> list[tuple[float, int]]:
    """The same from lines such as "0, GPU-1b…, 87, 41000" (percent, MiB); GPUs that report "[N/A]" are left out."""
    names = None if visible is None else {name.strip() for name in visible.split(",")}
    found = []
    for line in text.splitlines():
        parts = [part.strip() for part in line.split(",")]
        if len(parts) != 4 or not (parts[2].isdecimal() and parts[3].isdecimal()):
            continue
        if names is None or names & set(parts[:2]):
            found.append((int(parts[2]) / 100, int(parts[3]) * _MIB))
    return found
