"""Properties of this machine: system, disk space, GPUs; and locks between processes."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bootstrap.progress import SetupError

GIB = 1024**3
GPUS = Path("/proc/driver/nvidia/gpus")


def require_space(folder: Path, needed: int) -> None:
    """Raise SetupError if the disk of `folder` has less than `needed` bytes free."""
    if (free := shutil.disk_usage(folder).free) < needed:
        raise SetupError(
            f"Not enough disk space to install Echoscope: {folder} has {free / GIB:.1f} GB free, {needed / GIB:.1f} GB "
            "are needed. Nothing was changed. Free some, or move the checkout to a larger disk, and run it again."
        )


def nvidia_gpus() -> int:
    """Return the number of NVIDIA GPUs with their driver; nvidia-smi lists them if the driver does not (WSL)."""
    if GPUS.is_dir():
        return len(list(GPUS.iterdir()))
    program = shutil.which("nvidia-smi")
    return subprocess.run([program, "-L"], capture_output=True).stdout.count(b"GPU ") if program else 0


def cache_bytecode(folder: Path) -> None:
    """Let child processes cache bytecode in `folder` if PYTHONDONTWRITEBYTECODE is set.

    Images often set it to keep source folders clean. Every program would then compile thousands of modules at each
    start, which takes longer than the rest of the start.
    """
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
        os.environ.setdefault("PYTHONPYCACHEPREFIX", str(folder))


def require_supported_system() -> None:
    """Raise SetupError on Windows, where processes and sockets differ too much, and on Macs without PyTorch builds."""
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


@contextmanager
def exclusive(lock: Path) -> Iterator[None]:
    """Lock a file; waits while another process has locked it."""
    import fcntl  # missing on Windows, where a sentence explains it

    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("  … another set-up is running in this checkout; waiting for it", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
