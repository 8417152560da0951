"""Collective operations of the learners of a run over torch.distributed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

_BUCKET = 2**24  # gradient elements per all-reduce: 64 MiB in float32


class RankGroup:
    """A rank of a torch.distributed process group, which the caller has initialised; see `group.ProcessGroup`.

    Args:
        rank, size: rank of this process, number of processes.
        cpu: process group for tensors on the CPU.
    Attributes:
        sharded: whether weights are sharded.
    """

    def __init__(self, rank: int, size: int, cpu: Any) -> None:
        self.rank, self.size, self.cpu, self.sharded = rank, size, cpu, False

    def all_reduce(self, *tensors: Tensor) -> None:
        for tensor in tensors:
            dist.all_reduce(tensor, group=self.cpu)

    def sum_by_name(self, numbers: dict[str, float]) -> dict[str, float]:
        gathered: list[dict[str, float]] = [{} for _ in range(self.size)]
        dist.all_gather_object(gathered, dict(numbers), group=self.cpu)
        sums: dict[str, float] = {}
        for part in gathered:
            for name, number in part.items():
                sums[name] = sums.get(name, 0.0) + number
        return sums

    def sum_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        if self.sharded:
            return  # reduce-scatter already summed them
        present = torch.tensor([parameter.grad is not None for parameter in parameters], dtype=torch.long)
        dist.all_reduce(present, group=self.cpu)
        trained = [parameter for parameter, count in zip(parameters, present.tolist(), strict=True) if count]
        for bucket in buckets(trained):
            flat = torch.cat([_gradient(parameter).flatten() for parameter in bucket])
            dist.all_reduce(flat)
            for parameter, part in zip(bucket, torch.split(flat, [other.numel() for other in bucket]), strict=True):
                parameter.grad = part.view_as(parameter).clone()

    def close(self) -> None:
        """Destroy the process group."""
        if dist.is_initialized():
            dist.destroy_process_group()


def _gradient(parameter: nn.Parameter) -> Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad


def buckets(parameters: Sequence[nn.Parameter]) -> Iterator[list[nn.Parameter]]:
    """Yield consecutive parameters of one dtype that are reduced together."""
    bucket: list[nn.Parameter] = []
    for parameter in parameters:
        full = sum(other.numel() for other in bucket) + parameter.numel() > _BUCKET
        if bucket and (full or bucket[0].dtype != parameter.dtype):
            yield bucket
            bucket = []
        bucket.append(parameter)
    if bucket:
        yield bucket
