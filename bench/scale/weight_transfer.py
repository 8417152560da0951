"""Seconds and bytes from the end of an update until another process could sample with the new weights."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import Any

import ray
import torch
from torch import Tensor

from trainer.cluster.transfer import PackedWeights
from trainer.policy.weights import VersionedWeights

ROUNDS = 5
_WIDTH = 1024


class Reader:
    """An actor with a copy of the weights."""

    def load(self, packed: PackedWeights) -> int:
        """Overwrite the copy. Returns the version."""
        tensors = packed.unpack().tensors
        if not hasattr(self, "own"):
            self.own = {name: torch.empty_like(value) for name, value in tensors.items()}
        for name, value in tensors.items():
            self.own[name].copy_(value)
        return packed.version


@dataclass(frozen=True)
class TransferResult:
    """Medians of seconds for weights of this many bytes.

    Attributes:
        copy: into another copy of the model in the same process.
        store: into the object store.
        readers: until all of some actors have loaded them from there.
    """

    size: int
    copy: float
    store: float
    readers: float


def weights_of(parameters: int, version: int) -> VersionedWeights:
    """Random float32 weights in matrices of a usual size."""
    rows = max(1, parameters // _WIDTH // 8)
    tensors: dict[str, Tensor] = {f"layers.{number}.weight": torch.rand(rows, _WIDTH) for number in range(8)}
    return VersionedWeights(version, tensors)


def measure(parameters: int, actors: int = 2) -> TransferResult:
    """Pass weights on, in this process and to actors of the connected cluster."""
    actor: Any = ray.remote(Reader)
    readers = [actor.options(num_cpus=0.1).remote() for _ in range(actors)]
    own = weights_of(parameters, 0).tensors
    seconds: list[tuple[float, float, float]] = []
    for version in range(ROUNDS + 1):
        new = weights_of(parameters, version)
        began = time.perf_counter()
        for name, value in new.tensors.items():
            own[name].copy_(value)
        copied = time.perf_counter()
        reference = ray.put(PackedWeights.of(new))
        stored = time.perf_counter()
        ray.get([reader.load.remote(reference) for reader in readers])
        loaded = time.perf_counter()
        if version:  # the first round reserves memory
            seconds.append((copied - began, stored - copied, loaded - copied))
    for reader in readers:
        ray.kill(reader)
    copy, store, all_read = (statistics.median(column) for column in zip(*seconds, strict=True))
    return TransferResult(new.size, copy, store, all_read)


def table(results: list[TransferResult], actors: int = 2) -> str:
    """As Markdown."""
    lines = [
        f"| bytes | copy in one process | into the object store | until {actors} actors have them |",
        "| --- | --- | --- | --- |",
    ]
    lines += [
        f"| {result.size / 10**6:,.0f} MB | {1000 * result.copy:,.1f} ms | {1000 * result.store:,.1f} ms | "
        f"{1000 * result.readers:,.1f} ms |"
        for result in results
    ]
    return "\n".join(lines)
