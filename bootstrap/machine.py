"""Properties of this machine: system, disk space, memory, GPUs."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

from bootstrap.progress import SetupError, Step, run

GIB = 1024**3
CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
GPUS = Path("/proc/driver/nvidia/gpus")


def free_bytes(folder: Path) -> int:
    """Free space on the disk of `folder`, which may not exist yet."""
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def require_space(folder: Path, needed: int, purpose: str) -> None:
    """Raises SetupError if the disk of `folder` has less than `needed` bytes free."""
    if (free := free_bytes(folder)) < needed:
        raise SetupError(
            f"Not enough disk space {purpose}: {folder} has {free / GIB:.1f} GB free, {needed / GIB:.1f} GB are "
            "needed. Nothing was changed. Free some space, or move the checkout to a larger disk, and run it again."
        )


def memory_bytes() -> int:
    """Main memory, or what the control group of this process may use of it."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(total, int(CGROUP_LIMIT.read_text(encoding="ascii")))
    except (OSError, ValueError):  # no control group, or its limit is "max"
        return total


def has_nvidia_gpu() -> bool:
    """Whether there is an NVIDIA GPU with its driver."""
    if Path("/proc/driver/nvidia/version").exists():
        return True
    program = shutil.which("nvidia-smi")
    return program is not None and b"GPU" in subprocess.run([program, "--list-gpus"], capture_output=True).stdout


def nvidia_gpus() -> int:
    """Number of NVIDIA GPUs that the driver reports; 0 where it reports none, as under WSL."""
    return len(list(GPUS.iterdir())) if GPUS.is_dir() else 0


def install_debian_packages(line: Step, *packages: str) -> None:
    """Install packages of the system with apt, where that is possible: on Debian as root."""
    if shutil.which("apt-get") and os.geteuid() == 0:
        for words in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
            run(["apt-get", *words], line, env={"DEBIAN_FRONTEND": "noninteractive"})


def cache_bytecode(folder: Path) -> None:
    """Let child processes cache bytecode in `folder` if PYTHONDONTWRITEBYTECODE is set.

    Images often set it to keep source folders clean. Every program would then compile thousands of modules at each
    start, which takes longer than the rest of the start.
    """
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
        os.environ.setdefault("PYTHONPYCACHEPREFIX", str(folder))


def require_supported_system() -> None:
    """Raises SetupError on Windows, where processes and sockets differ too much, and on Macs without PyTorch builds."""
    if platform.system() == "Windows":
        raise SetupError(
            "Echoscope runs on Linux and macOS. On Windows use WSL (in PowerShell: `wsl --install`, then the same "
            "commands inside it), or Docker: `docker compose up`."
        )
    if platform.system() == "Darwin" and platform.machine() == "x86_64":
        raise SetupError(
            "PyTorch has no build for Intel Macs: on one, run Echoscope in Docker (`docker compose up`). On a Mac with "
            "Apple silicon, this Python was made for Intel processors and runs emulated: install one for arm64."
        )
