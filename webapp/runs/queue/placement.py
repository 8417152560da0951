"""Whether a run fits a worker, and which of its GPUs it would get. Pure: who goes first is decided in line.py."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

GIB = 2**30


@dataclass(frozen=True)
class ResourceRequest:
    """What a run asks of a worker.

    `queue` is the device class, `gpus` how many of one worker, `memory` bytes in all (None: not known), spread evenly
    over the GPUs. `optional`: on a worker without any GPU it does without.
    """

    queue: str
    gpus: int = 0
    memory: int | None = None
    optional: bool = False


@dataclass(frozen=True)
class GpuCapacity:
    """A GPU of a worker; sizes in bytes, None where it does not tell. `runs` are those that it is reserved for."""

    id: str
    total: int | None = None
    free: int | None = None
    runs: int = 0


@dataclass(frozen=True)
class WorkerCapacity:
    """What a worker has, and what of it is free now."""

    queues: tuple[str, ...]
    gpus: tuple[GpuCapacity, ...] = ()
    runs_per_gpu: int = 1
    total: int | None = None
    free: int | None = None

    def emptied(self) -> WorkerCapacity:
        """The same worker with nothing on it."""
        gpus = tuple(GpuCapacity(gpu.id, gpu.total, gpu.total) for gpu in self.gpus)
        return WorkerCapacity(self.queues, gpus, self.runs_per_gpu, self.total, self.total)


@dataclass(frozen=True)
class Allocation:
    """What a run that is being trained has of its worker."""

    reserved: tuple[str, ...] = field(default=())
    memory: int | None = None


def reserve(needs: ResourceRequest, room: WorkerCapacity) -> tuple[str, ...] | None:
    """The ids of the GPUs that the run would get, the emptiest first; empty for none; None where it does not fit."""
    if needs.queue not in room.queues:
        return None
    wanted = needs.gpus if room.gpus or not needs.optional else 0
    if not wanted:
        return () if _enough(needs.memory, room.free) else None
    each = None if needs.memory is None else needs.memory // wanted
    open_ = [gpu for gpu in room.gpus if gpu.runs < room.runs_per_gpu and _enough(each, gpu.free)]
    if len(open_) < wanted:
        return None
    open_.sort(key=lambda gpu: (gpu.runs, -(gpu.free or 0)))
    return tuple(gpu.id for gpu in open_[:wanted])


def could_fit(needs: ResourceRequest, room: WorkerCapacity) -> bool:
    """Whether the run would fit if the worker had nothing else to do."""
    return reserve(needs, room.emptied()) is not None


def lacks_gpus_only(needs: ResourceRequest, room: WorkerCapacity) -> bool:
    """Whether the run would fit as soon as other runs give their GPUs back."""
    wanted = needs.gpus if room.gpus else 0
    taken = sum(gpu.runs >= room.runs_per_gpu for gpu in room.gpus)
    return could_fit(needs, room) and len(room.gpus) - taken < wanted


def room_of(
    queues: Iterable[str],
    gpus: Iterable[Mapping[str, Any]],
    memory: Iterable[Mapping[str, Any]],
    runs_per_gpu: int,
    held: Iterable[Allocation],
) -> WorkerCapacity:
    """A worker's room from what it told and the runs that it holds.

    Free is the lesser of what was measured and of what the runs it holds leave: one that has only begun has not
    taken its memory yet.
    """
    held = list(held)
    machine = next((device for device in memory if device["name"] == "Machine"), None)
    found = []
    for gpu in gpus:
        users = [run for run in held if gpu["id"] in run.reserved]
        claimed = sum((run.memory or 0) // len(run.reserved) for run in users)
        found.append(GpuCapacity(gpu["id"], gpu["total"], _left(gpu["total"], gpu["free"], claimed), len(users)))
    total, free = (machine["total"], machine["free"]) if machine else (None, None)
    claimed = sum(run.memory or 0 for run in held if not run.reserved)
    return WorkerCapacity(tuple(queues), tuple(found), max(1, runs_per_gpu), total, _left(total, free, claimed))


def _left(total: int | None, free: int | None, claimed: int) -> int | None:
    return None if total is None or free is None else max(0, min(free, total - claimed))


def _enough(wanted: int | None, free: int | None) -> bool:
    return wanted is None or free is None or wanted <= free
