"""Runs trainings in parallel on one machine until all are complete or the time is over, and archives their journals."""

from __future__ import annotations

import gzip
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from trainer.journal.protocol import COMPLETED, CONFIG_FILE, INTERRUPTED, JOURNAL_FILE, LOG_FILE

PART = 15 * 2**20
"""Bytes of a part of the archive, so that parts pass through transfers with a limit of 16 MiB for each file."""
_POLL = 0.2  # seconds


@dataclass(frozen=True)
class Job:
    """One training run: its folder, and the arguments of `python -m trainer train` that determine its settings."""

    name: str
    arguments: tuple[str, ...]
    folder: Path


def run(jobs: Sequence[Job], workers: int, deadline: float | None, threads: int) -> list[str]:
    """Run all jobs, `workers` at a time. Runs that are still training at the deadline end with a checkpoint.

    Args:
        jobs: in the order in which they start; later ones are left out once the deadline has passed.
        deadline: `time.monotonic()` at which runs are told to stop; None: never.
        threads: CPU threads of each run; 0: as in its settings.
    Returns:
        A sentence for each run that failed.
    """

    def work(job: Job) -> str:
        if deadline is not None and time.monotonic() >= deadline:
            return ""
        return _train(job, deadline, threads)

    with ThreadPoolExecutor(workers) as pool:
        return [problem for problem in pool.map(work, jobs) if problem]


def _train(job: Job, deadline: float | None, threads: int) -> str:
    job.folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "trainer", "train", *job.arguments, "--out", str(job.folder), "--resume"]
    asked = False
    with (job.folder / LOG_FILE).open("ab") as log:
        environment = os.environ | {"OMP_NUM_THREADS": str(threads)} if threads else None
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        while process.poll() is None:
            if deadline is not None and time.monotonic() >= deadline and not asked:
                asked = True
                process.terminate()
            time.sleep(_POLL)
    if process.returncode in (COMPLETED, INTERRUPTED):
        return ""
    lines = (job.folder / LOG_FILE).read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return f"{job.name} failed with exit code {process.returncode}: {lines[-1] if lines else 'no output'}"


@contextmanager
def multi_process_service() -> Iterator[bool]:
    """Run NVIDIA's Multi-Process Service, with which kernels of several processes share a GPU at the same time.

    Yields True if it runs, and False if the machine has none or it was already running.
    """
    control = shutil.which("nvidia-cuda-mps-control")
    if control is None or "CUDA_MPS_PIPE_DIRECTORY" in os.environ:
        yield False
        return
    with tempfile.TemporaryDirectory(prefix="mps-") as folder:
        variables = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        os.environ.update(variables)
        started = subprocess.run([control, "-d"], check=False).returncode == 0
        try:
            yield started
        finally:
            if started:
                subprocess.run([control], input=b"quit\n", check=False, timeout=30)
            for name in variables:
                os.environ.pop(name, None)


def archive(jobs: Sequence[Job], folder: Path) -> list[Path]:
    """Write journals (compressed) and settings of the runs as `runs.tar.00`, `runs.tar.01`, … of at most PART bytes.

    `cat runs.tar.* | tar x` restores NAME/journal.jsonl.gz and NAME/config.yaml.
    """
    folder.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for job in jobs:
            for name in (JOURNAL_FILE, CONFIG_FILE):
                if not (job.folder / name).exists():
                    continue
                data = (job.folder / name).read_bytes()
                if name == JOURNAL_FILE:
                    name, data = f"{name}.gz", gzip.compress(data, 6)
                entry = tarfile.TarInfo(f"{job.name}/{name}")
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))
    data = buffer.getvalue()
    parts = [data[start : start + PART] for start in range(0, len(data), PART)]
    paths = [folder / f"runs.tar.{number:02d}" for number in range(len(parts))]
    for path, part in zip(paths, parts, strict=True):
        path.write_bytes(part)
    return paths
