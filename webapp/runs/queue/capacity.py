"""Free capacity: live workers and free slots of each device class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Count, Q

from webapp.core import formatting
from webapp.runs.models import Run, Worker
from webapp.runs.queue import device_classes, fair_share
from webapp.runs.queue import order as line
from webapp.runs.queue.dead_workers import is_alive, live_workers


@dataclass(frozen=True)
class Capacity:
    """Live workers and free slots by queue, devices of the live workers, and queues served by workers with GPUs."""

    workers: dict[str, int] = field(default_factory=dict)
    free: dict[str, int] = field(default_factory=dict)
    devices: tuple[str, ...] = ()
    with_gpus: frozenset[str] = frozenset()

    @property
    def has_gpus(self) -> bool:
        """True if a worker with a GPU is online."""
        return bool(self.workers.get(device_classes.GPU))

    def sentence(self, queue: str, waiting: int) -> str:
        """Return a summary, e.g. “2 workers, 1 slot free; 3 runs waiting before this one.”"""
        if not self.workers.get(queue):
            return "No worker is running: the run waits in the queue until one starts."
        workers = formatting.plural(self.workers[queue], "worker")
        free = self.free.get(queue, 0)
        if free > waiting:
            return f"{workers}, {formatting.plural(free, 'slot')} free: the run starts at once."
        runs = formatting.plural(waiting, "run")
        return f"{workers}, {formatting.plural(free, 'slot')} free; {runs} waiting before this one."


def capacity(workers: Sequence[Worker], now: datetime) -> Capacity:
    """Return the capacity of those workers, whose `held` runs are prefetched."""
    alive = [worker for worker in workers if is_alive(worker, now) and not worker.stopping]
    count: Counter[str] = Counter()
    free: Counter[str] = Counter()
    for worker in alive:
        for queue in worker.queues:
            count[queue] += 1
            free[queue] += max(0, worker.slots - _holds(worker))
    devices = tuple(dict.fromkeys(worker.device for worker in alive if worker.device))
    with_gpus = frozenset(queue for worker in alive if worker.gpus for queue in worker.queues)
    return Capacity(dict(count), dict(free), devices, with_gpus)


def _holds(worker: Worker) -> int:
    held = getattr(worker, "held", None)
    return int(worker.holds) if held is None else len(held)  # type: ignore[attr-defined]


def capacity_now(now: datetime) -> Capacity:
    """Return the present capacity. One query."""
    held = Count("runs", filter=Q(runs__state__in=Run.HELD))
    return capacity(list(live_workers(now).annotate(holds=held)), now)


def present_wait(current: Capacity) -> str:
    """Describe the wait of a run whose settings are not valid yet: all queued runs may precede it. One query."""
    return current.sentence(device_classes.ANY, Run.objects.filter(state=Run.State.QUEUED).count())


def expected_wait(newcomer: Run, current: Capacity, now: datetime) -> str:
    """Describe the wait of a run launched now, e.g. “2 workers, 1 slot free: the run starts at once.”"""
    if not current.workers:
        return current.sentence(newcomer.queue, 0)
    lack = line.missing_resources(newcomer.needs, line.workers(now))
    if lack:
        return f"The run would wait for {lack}."
    order = line.projected_order([*line.waiting(), newcomer], fair_share.used(now), now)
    same = [run for run in order if run.queue == newcomer.queue]
    return current.sentence(newcomer.queue, next(position for position, run in enumerate(same) if run is newcomer))
