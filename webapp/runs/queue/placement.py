"""Resource matching of runs and workers, and the choice of GPUs. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from trainer.config.resources import ActorRequest
from webapp.core import formatting
from webapp.core.formatting import gib
from webapp.runs.queue import cluster_capacity
from webapp.runs.queue.cluster_capacity import ClusterCapacity, get_cluster_capacity


@dataclass(frozen=True)
class ResourceRequest:
    """Resources that a run requests of one worker.

    Attributes:
        queue: device class.
        gpus: number of GPUs.
        memory: bytes in total, spread evenly over the GPUs; None if unknown.
        optional: the run also works on a worker without any GPU.
        actors: Ray actors, for which the worker needs a cluster; the rest is for the process that drives them.
        memory_without_gpu: bytes of the machine's memory if an optional GPU is missing; None: `memory`.
    """

    queue: str
    gpus: int = 0
    memory: int | None = None
    optional: bool = False
    actors: tuple[ActorRequest, ...] = ()
    memory_without_gpu: int | None = None

    def gpus_on(self, room: WorkerCapacity) -> int:
        """Return the number of GPUs that the run would reserve on a worker."""
        return self.gpus if room.gpus or not self.optional else 0

    def memory_on(self, room: WorkerCapacity) -> int | None:
        """Return the bytes that the run would take of the memory of each GPU, or of the machine's; None if unknown."""
        count = self.gpus_on(room)
        if count:
            return None if self.memory is None else self.memory // count
        return self.memory_without_gpu if self.gpus and self.memory_without_gpu is not None else self.memory


@dataclass(frozen=True)
class GpuCapacity:
    """A GPU of a worker: sizes in bytes, None if unknown, and the number of runs that reserve it."""

    id: str
    total: int | None = None
    free: int | None = None
    runs: int = 0


@dataclass(frozen=True)
class WorkerCapacity:
    """Total and free resources of a worker.

    Attributes:
        total, free: bytes of the machine's memory; None if unknown.
        cluster: the Ray cluster of the worker, if any.
        runs, claimed: number of runs without a GPU that the worker holds, and the bytes that they have requested.
    """

    queues: tuple[str, ...]
    gpus: tuple[GpuCapacity, ...] = ()
    runs_per_gpu: int = 1
    total: int | None = None
    free: int | None = None
    cluster: ClusterCapacity | None = None
    runs: int = 0
    claimed: int = 0

    def when_idle(self) -> WorkerCapacity:
        """Return the same worker without any run."""
        gpus = tuple(GpuCapacity(gpu.id, gpu.total, gpu.total) for gpu in self.gpus)
        cluster = self.cluster and self.cluster.when_idle()
        return WorkerCapacity(self.queues, gpus, self.runs_per_gpu, self.total, self.total, cluster)


@dataclass(frozen=True)
class Allocation:
    """Resources that a running run uses on its worker."""

    reserved: tuple[str, ...] = field(default=())
    memory: int | None = None
    actors: tuple[ActorRequest, ...] = ()


def reserve(needs: ResourceRequest, room: WorkerCapacity) -> tuple[str, ...] | None:
    """Return the ids of the GPUs for the run, least used first; empty without GPUs; None if it does not fit."""
    if needs.queue not in room.queues:
        return None
    if needs.actors and (room.cluster is None or not room.cluster.holds(needs.actors)):
        return None
    count, memory = needs.gpus_on(room), needs.memory_on(room)
    if not count:
        return () if _enough(memory, room.free) else None
    available = [gpu for gpu in _unreserved(room) if _enough(memory, gpu.free)]
    if len(available) < count:
        return None
    available.sort(key=lambda gpu: (gpu.runs, -(gpu.free or 0)))
    return tuple(gpu.id for gpu in available[:count])


def could_fit(needs: ResourceRequest, room: WorkerCapacity) -> bool:
    """Return True if the run would fit if the worker were idle."""
    return reserve(needs, room.when_idle()) is not None


def lacks_gpus_only(needs: ResourceRequest, room: WorkerCapacity) -> bool:
    """Return True if the run only waits for other runs to release GPUs, or their part of the worker's cluster."""
    if needs.actors and not (room.cluster and room.cluster.holds(needs.actors)):
        return could_fit(needs, room)
    count = needs.gpus if room.gpus else 0
    return could_fit(needs, room) and len(_unreserved(room)) < count


def shortage(name: str, needs: ResourceRequest, room: WorkerCapacity) -> str:
    """Describe what the run lacks on a worker that could run it if idle; empty if it fits.

    For example “2 GPUs: worker a has 4, 1 of them free”.

    Args:
        name: name of the worker.
    """
    if reserve(needs, room) is not None:
        return ""
    if needs.actors and room.cluster and (lack := cluster_capacity.shortage(name, room.cluster, needs.actors)):
        return lack
    count, memory = needs.gpus_on(room), needs.memory_on(room) or 0
    if not count:
        holders = f"{formatting.plural(room.runs, 'run')} {'has' if room.runs == 1 else 'have'}"
        others = f"{holders} reserved {gib(room.claimed)} GiB" if room.claimed else "other programs use the rest"
        free = f"{gib(room.free or 0)} of {gib(room.total or 0)} GiB free"
        return f"{gib(memory)} GiB of memory (estimated): worker {name} has {free}; {others}"
    unreserved = _unreserved(room)
    if len(unreserved) < count:
        free = f"{len(unreserved) or 'none'} of them free"
        return f"{formatting.plural(count, 'GPU')}: worker {name} has {len(room.gpus)}, {free}"
    freest = max(unreserved, key=lambda gpu: gpu.free or 0)
    devices = "a GPU" if count == 1 else f"each of {count} GPUs"
    free = f"{gib(freest.free or 0)} of {gib(freest.total or 0)} GiB free"
    return f"{gib(memory)} GiB of memory (estimated) on {devices}: the freest of worker {name} has {free}"


def _unreserved(room: WorkerCapacity) -> list[GpuCapacity]:
    """Return the GPUs that can take one more run."""
    return [gpu for gpu in room.gpus if gpu.runs < room.runs_per_gpu]


def measure_capacity(
    queues: Iterable[str],
    gpus: Iterable[Mapping[str, Any]],
    memory: Iterable[Mapping[str, Any]],
    runs_per_gpu: int,
    held: Iterable[Allocation],
    cluster: Mapping[str, Any] | None = None,
) -> WorkerCapacity:
    """Return the capacity of a worker from its heartbeat and its runs.

    Free memory is the smaller of the measured value and the total minus all requests: a run that has just started has
    not allocated its memory yet.
    """
    held = list(held)
    machine = next((device for device in memory if device["name"] == "Machine"), None)
    capacities = []
    for gpu in gpus:
        users = [run for run in held if gpu["id"] in run.reserved]
        claimed = sum((run.memory or 0) // len(run.reserved) for run in users)
        capacities.append(GpuCapacity(gpu["id"], gpu["total"], _left(gpu["total"], gpu["free"], claimed), len(users)))
    total, free = (machine["total"], machine["free"]) if machine else (None, None)
    on_host = [run for run in held if not run.reserved]
    claimed = sum(run.memory or 0 for run in on_host)
    left = _left(total, free, claimed)
    actors = get_cluster_capacity(cluster or {}, [run.actors for run in held if run.actors])
    per_gpu = max(1, runs_per_gpu)
    return WorkerCapacity(tuple(queues), tuple(capacities), per_gpu, total, left, actors, len(on_host), claimed)


def _left(total: int | None, free: int | None, claimed: int) -> int | None:
    return None if total is None or free is None else max(0, min(free, total - claimed))


def _enough(requested: int | None, free: int | None) -> bool:
    return requested is None or free is None or requested <= free
