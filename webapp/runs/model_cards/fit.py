"""Fit of a model to the workers, from the memory estimate of a run with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from trainer.config.run import RunConfig
from webapp.core import formatting
from webapp.runs.launch import estimates
from webapp.runs.models import Worker

Verdict = Literal["fits", "lora", "gpu", "large", "unknown"]
LORA_RANK, LORA_ALPHA = 64, 64.0
LABELS: dict[Verdict, str] = {
    "fits": "fits",
    "lora": "fits with LoRA",
    "gpu": "needs a GPU",
    "large": "too large",
    "unknown": "memory unknown",
}


@dataclass(frozen=True)
class WorkerFit:
    """Verdict on runs with a model on a worker. Memory in bytes; None if unknown."""

    worker: str
    verdict: Verdict
    needed: int | None
    available: int | None
    on_gpu: bool = False

    @property
    def label(self) -> str:
        return LABELS[self.verdict]

    @property
    def text(self) -> str:
        """The figures behind the verdict, e.g. “3.4 of 24.0 GiB”; empty if they are unknown."""
        if self.needed is None or self.available is None:
            return ""
        return f"{formatting.gib(self.needed)} of {formatting.gib(self.available)} GiB"


def fits(config: RunConfig, workers: Sequence[Worker]) -> list[WorkerFit]:
    """Return how the run fits each idle worker: as configured, or with adapters (LoRA) instead."""
    cache: dict[tuple[str, bool], int | None] = {}

    def needed(device: str, *, lora: bool) -> int | None:
        if (device, lora) not in cache:
            cache[device, lora] = estimates.needed_memory(_variant(config, device, lora=lora), int(device == "cuda"))
        return cache[device, lora]

    result = []
    for worker in workers:
        device, available = _memory(worker)
        on_gpu = device == "cuda"
        full = needed(device, lora=False)
        if full is None or available is None:
            result.append(WorkerFit(worker.name, "unknown", full, available, on_gpu))
            continue
        adapted = needed(device, lora=True)
        if full <= available:
            result.append(WorkerFit(worker.name, "fits", full, available, on_gpu))
        elif adapted is not None and adapted <= available:
            result.append(WorkerFit(worker.name, "lora", adapted, available, on_gpu))
        else:
            result.append(WorkerFit(worker.name, "large" if on_gpu else "gpu", full, available, on_gpu))
    return result


def _memory(worker: Worker) -> tuple[str, int | None]:
    """Return the device that a run uses on the worker, and the memory of its largest GPU or of the machine."""
    if worker.gpus:
        return "cuda", max((gpu["total"] for gpu in worker.gpus if gpu["total"]), default=None)
    machine = next((device for device in worker.memory if device["name"] == "Machine"), None)
    return "cpu", machine["total"] if machine else None


def _variant(config: RunConfig, device: str, *, lora: bool) -> RunConfig:
    """Return the configuration for a device, with adapters if `lora` is True and it has none."""
    changes = {"policy": config.policy.model_copy(update={"device": device})}
    if not lora or config.lora.rank:
        return config.model_copy(update=changes)
    adapters = config.lora.model_copy(update={"rank": LORA_RANK, "alpha": LORA_ALPHA})
    return config.model_copy(update={**changes, "lora": adapters})
