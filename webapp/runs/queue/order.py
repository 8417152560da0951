"""Queue order, and why each queued run is waiting.

The order: highest level first, then the team with the least device use (fair_share.py), then the longest wait. The
level is the priority plus one for every AGEING of waiting, without limit, so that no run waits forever.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Prefetch

from webapp.core import formatting
from webapp.runs.models import Run, Worker
from webapp.runs.queue import device_classes, fair_share, placement

AGEING = timedelta(hours=2)
ALIVE = timedelta(seconds=30)
"""A worker without a heartbeat for longer counts as lost."""
CLOCK_TOLERANCE = 2.0
"""Seconds by which a worker's clock may differ from the database's before the workers page warns."""


@dataclass(frozen=True)
class AvailableWorker:
    """A live worker that accepts runs: its capacity, and its free slots."""

    worker: Worker
    room: placement.WorkerCapacity
    places: int


@dataclass(frozen=True)
class QueuePosition:
    """Position of a run in the queue of its class (from 1), and why it waits."""

    position: int
    words: str
    possible: bool
    """Whether some running worker could take it when idle."""


def waited_since(run: Run) -> datetime:
    """Start of the run's wait."""
    return run.queued_at or run.created_at


def level(run: Run, now: datetime) -> int:
    """Priority of the run, raised by its wait."""
    return int(run.priority) + max(0, (now - waited_since(run)) // AGEING)


def claim_order(runs: Iterable[Run], used: Mapping[int, float], now: datetime) -> list[Run]:
    """The waiting runs in the order in which a worker with room for any of them would claim."""
    return sorted(
        runs, key=lambda run: (-level(run, now), used.get(run.team_id, 0.0), waited_since(run), run.pk or 2**62)
    )


def projected_order(runs: Iterable[Run], used: Mapping[int, float], now: datetime) -> list[Run]:
    """The waiting runs in the order in which they would start, each one adding to its team's use."""
    by_level: dict[int, dict[int, list[Run]]] = defaultdict(lambda: defaultdict(list))
    for run in sorted(runs, key=lambda run: (waited_since(run), run.pk or 2**62)):
        by_level[level(run, now)][run.team_id].append(run)
    spent, order = dict(used), []
    for stage in sorted(by_level, reverse=True):
        teams = by_level[stage]
        while teams:
            first = min(
                teams, key=lambda team: (spent.get(team, 0.0), waited_since(teams[team][0]), teams[team][0].pk or 2**62)
            )
            run = teams[first].pop(0)
            order.append(run)
            spent[first] = (
                spent.get(first, 0.0) + fair_share.weight(run.gpus) * fair_share.RUNNING_PENALTY.total_seconds()
            )
            if not teams[first]:
                del teams[first]
    return order


def waiting() -> list[Run]:
    """All queued runs with the fields that ordering needs. One query."""
    runs = Run.objects.filter(state=Run.State.QUEUED)
    return list(runs.select_related("promised").defer("log_tail", "summary"))


def room_of(worker: Worker, held: Iterable[Run]) -> placement.WorkerCapacity:
    """Capacity of the worker while it holds those runs."""
    return placement.room_of(
        worker.queues,
        worker.gpus,
        worker.memory,
        worker.runs_per_gpu,
        [placement.Allocation(tuple(run.reserved), run.memory) for run in held],
    )


def workers(now: datetime) -> list[AvailableWorker]:
    """The live workers that accept runs. Two queries."""
    held = Run.objects.filter(state__in=Run.HELD).only("worker_id", "reserved", "memory", "state")
    alive = Worker.objects.filter(last_seen_at__gt=now - ALIVE, stopping=False)
    available = []
    for worker in alive.order_by("name").prefetch_related(Prefetch("runs", held, to_attr="held")):
        runs: list[Run] = worker.held
        available.append(AvailableWorker(worker, room_of(worker, runs), max(0, worker.slots - len(runs))))
    return available


def known_classes(now: datetime) -> set[str]:
    """The device classes that live workers serve. One query."""
    alive = Worker.objects.filter(last_seen_at__gt=now - ALIVE, stopping=False)
    return {name for queues in alive.values_list("queues", flat=True) for name in queues}


def queue_positions(now: datetime) -> dict[int, QueuePosition]:
    """Queue position of every waiting run by primary key. Four queries, one if the queue is empty."""
    runs = waiting()
    if not runs:
        return {}
    available = workers(now)
    places: Counter[str] = Counter()
    positions = {}
    for run in projected_order(runs, fair_share.used(now), now):
        places[run.queue] += 1
        positions[run.pk] = queue_position(run, places[run.queue], available)
    return positions


def queue_position(run: Run, position: int, available: Sequence[AvailableWorker]) -> QueuePosition:
    """Why the run waits at that position in the queue of its class."""
    lack = missing_resources(run.needs, available)
    if lack:
        return QueuePosition(position, f"Waiting for {lack}", False)
    serving = [worker for worker in available if run.queue in worker.room.queues]
    queue = "in the queue" if run.queue == device_classes.ANY else f"in the queue for {run.queue}"
    text = f"{ordinal(position)} {queue}; {formatting.plural(len(serving), 'worker')}, {_slots(serving)}"
    if run.promised and run.promised in [candidate.worker for candidate in serving]:
        text += f"; {run.promised.name} is reserved for it and takes no other run"
    return QueuePosition(position, text, True)


def missing_resources(needs: placement.ResourceRequest, available: Sequence[AvailableWorker]) -> str:
    """Resources that no live worker has, e.g. “a worker with 2 GPUs; none is running”. Empty if one suffices."""
    serving = [worker.room for worker in available if needs.queue in worker.room.queues]
    kind = "a worker" if needs.queue == device_classes.ANY else f"a worker of class {needs.queue}"
    if not serving:
        return f"{kind}; none is running"
    if any(placement.could_fit(needs, room) for room in serving):
        return ""
    max_gpus = max(len(room.gpus) for room in serving)
    if needs.gpus > max_gpus and not (needs.optional and not max_gpus):
        has = f"the largest running one has {max_gpus}" if max_gpus else "none is running"
        return f"{kind} with {formatting.plural(needs.gpus, 'GPU')}; {has}"
    per_gpu = (needs.memory or 0) / max(1, needs.gpus if max_gpus else 0)
    sizes = (
        [gpu.total for room in serving for gpu in room.gpus] if needs.gpus and max_gpus else [r.total for r in serving]
    )
    where = "a GPU" if needs.gpus and max_gpus else "memory"
    largest = max((size for size in sizes if size is not None), default=0)
    return (
        f"{kind} with {where} of {per_gpu / placement.GIB:,.1f} GiB (estimated); the largest running one has "
        f"{largest / placement.GIB:,.1f} GiB"
    )


def _slots(serving: Sequence[AvailableWorker]) -> str:
    free = sum(worker.places for worker in serving)
    return f"{formatting.plural(free, 'slot')} free" if free else "no slot free"


def ordinal(number: int) -> str:
    """Ordinal: 1st, 2nd, 3rd, 4th, 11th, 21st."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{ending}"
