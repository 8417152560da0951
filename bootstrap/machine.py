"""What this machine offers: disk, GPU, architecture. Nothing is changed here."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

from bootstrap.progress import SetupError

GIB = 1024**3
CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


def free_bytes(folder: Path) -> int:
    """Free space where `folder` is or will be."""
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def require_space(folder: Path, needed: int, purpose: str) -> None:
    """Raises SetupError when the disk that holds `folder` has less than `needed` bytes free."""
    free = free_bytes(folder)
    if free < needed:
        raise SetupError(
            f"Not enough disk space {purpose}: {folder} has {free / GIB:.1f} GB free, {needed / GIB:.1f} GB are "
            "needed. Nothing was changed. Free some space, or put the checkout on a larger disk, and run it again."
        )


def memory_bytes() -> int:
    """Main memory, or what the control group of this process may use of it."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(total, int(CGROUP_LIMIT.read_text(encoding="ascii")))
    except (OSError, ValueError):  # no control group, or its limit is "max"
        return total


def has_nvidia_gpu() -> bool:
    """Whether an NVIDIA GPU with its driver is there."""
    if Path("/proc/driver/nvidia/version").exists():
        return True
    program = shutil.which("nvidia-smi")
    if program is None:
        return False
    asked = subprocess.run([program, "--list-gpus"], capture_output=True, text=True)
    return asked.returncode == 0 and "GPU" in asked.stdout


def is_debian() -> bool:
    """Whether packages come by apt."""
    return shutil.which("apt-get") is not None


def is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def keep_compiled(folder: Path) -> None:
    """Have Python keep what it compiles in `folder`, for this process's children, where it is told to keep nothing.

    Images often set PYTHONDONTWRITEBYTECODE, which keeps folders of sources clean. Every program would then compile
    the same thousands of modules anew at each start, for longer than all the rest of it takes.
    """
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
        os.environ.setdefault("PYTHONPYCACHEPREFIX", str(folder))


def require_supported_system() -> None:
    """Raises SetupError on Windows, whose processes and sockets differ too much."""
    if platform.system() == "Windows":
        raise SetupError(
            "Echoscope runs on Linux and macOS. On Windows use WSL (in PowerShell: `wsl --install`, then the same "
            "commands inside it), or Docker: `docker compose up`."
        )
