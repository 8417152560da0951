"""System metrics of a run, sampled by a background thread: processor, memory, disk and GPUs.

Sampling does not touch random state or tensors: training is the same with and without it.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from trainer.memory.available import available_memory
from trainer.memory.gpu_usage import reserved_gpu_bytes, visible_gpus
from trainer.metrics.timeline import PROCESSOR, Timeline

INTERVAL = 5.0
"""Seconds between two samples. Listing the processes of a large machine takes tens of milliseconds."""
GPU_INTERVAL = 10.0
"""Seconds between two samples of the GPUs: each sample starts nvidia-smi."""


@dataclass
class _Lap:
    """Measurements since the previous iteration's metrics."""

    cpu_seconds: float = 0.0
    seconds: float = 0.0
    memory: list[int] = field(default_factory=list)
    available: list[int] = field(default_factory=list)
    disk_free: list[int] = field(default_factory=list)
    gpu_utilization: list[float] = field(default_factory=list)
    gpu_memory: list[int] = field(default_factory=list)


class SystemSampler:
    """Samples the processes of a run until it is closed.

    Args:
        folder: folder of the run; the free space of its file system is measured.
        timeline: receives the shares of time in which processor and GPUs were busy.
        gpus: (utilization, bytes used) of the run's GPUs, empty without one.
        reserved: peak of the bytes that this process has reserved on GPUs; None: other processes learn.
    """

    def __init__(
        self,
        folder: Path,
        timeline: Timeline,
        *,
        gpus: Callable[[], list[tuple[float, int]]] | None = None,
        reserved: Callable[[], int] | None = reserved_gpu_bytes,
    ) -> None:
        self.folder, self.timeline = folder, timeline
        self._root = psutil.Process()
        self._gpus = gpus or visible_gpus
        self._reserved = reserved
        self._lock = threading.Lock()
        self._lap = _Lap()
        self._latest: dict[str, float] = {}
        self._clock = time.time() - time.monotonic()
        self._cpu: dict[tuple[int, float], float] = {}
        self._measured_at: float | None = None
        self._gpus_at = -GPU_INTERVAL
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="system metrics", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """End the thread, which may still be taking a sample."""
        self._closed.set()

    def collect(self) -> dict[str, float]:
        """Return system/* since the last call, without metrics not measured yet. Does not wait for a sample."""
        with self._lock:
            lap, self._lap = self._lap, _Lap()
        metrics: dict[str, float] = {}
        if lap.seconds:
            metrics["system/cpu_percent"] = 100 * lap.cpu_seconds / lap.seconds
        if lap.memory:
            metrics["system/memory_bytes"] = float(max(lap.memory))
        if lap.available:
            metrics["system/memory_available_bytes"] = float(min(lap.available))
        if lap.disk_free:
            metrics["system/disk_free_bytes"] = float(lap.disk_free[-1])
        if lap.gpu_utilization:
            metrics["system/gpu_utilization"] = sum(lap.gpu_utilization) / len(lap.gpu_utilization)
        if lap.gpu_memory:
            metrics["system/gpu_memory_bytes"] = float(max(lap.gpu_memory))
        if self._reserved and "system/gpu_memory_bytes" in self._latest | metrics:
            metrics["system/gpu_reserved_bytes"] = float(self._reserved())
        self._latest |= metrics  # an iteration shorter than the interval repeats the last values
        before, self._clock = self._clock, time.time() - time.monotonic()
        return self._latest | {"system/clock_jump_seconds": round(self._clock - before, 2) + 0.0}

    def sample(self) -> None:
        """Take one sample."""
        now = time.monotonic()
        cpu, memory = self._processes()
        spent = sum(seconds - self._cpu.get(key, 0.0) for key, seconds in cpu.items())
        gpus: list[tuple[float, int]] = []
        if now - self._gpus_at >= GPU_INTERVAL:
            before, self._gpus_at, gpus = self._gpus_at, now, self._gpus()
            for number, (share, _) in enumerate(gpus if before >= 0 else ()):
                self.timeline.add(f"GPU {number}", before, now, {"busy": share * (now - before)})
        available = available_memory()
        with self._lock:
            lap = self._lap
            if self._measured_at is not None:
                busy = min(now - self._measured_at, max(0.0, spent) / (psutil.cpu_count() or 1))
                self.timeline.add(PROCESSOR, self._measured_at, now, {"busy": busy})
                lap.cpu_seconds += max(0.0, spent)
                lap.seconds += now - self._measured_at
            lap.memory.append(memory)
            lap.available += [available[0]] if available else []
            lap.disk_free += [shutil.disk_usage(self.folder).free] if self.folder.exists() else []
            if gpus:
                lap.gpu_utilization.append(sum(share for share, _ in gpus) / len(gpus))
                lap.gpu_memory.append(sum(used for _, used in gpus))
        self._cpu, self._measured_at = cpu, now

    def _processes(self) -> tuple[dict[tuple[int, float], float], int]:
        """Return (process → CPU seconds, resident bytes) of the run; processes that end meanwhile are omitted."""
        cpu: dict[tuple[int, float], float] = {}
        memory = 0
        for process in [self._root, *self._root.children(recursive=True)]:
            try:
                with process.oneshot():
                    times = process.cpu_times()
                    cpu[process.pid, process.create_time()] = times.user + times.system
                    memory += process.memory_info().rss
            except psutil.Error:
                continue
        return cpu, memory

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                self.sample()
            except (OSError, psutil.Error):  # a run continues without these figures
                pass
            self._closed.wait(INTERVAL)
