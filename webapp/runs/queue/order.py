"""Who waits, who goes next, and why a run waits, in words. Nothing is taken here: that is claims.py's business.

The order: the highest level first, then the team that used the least of the devices (fairness.py), then who has waited
longest. The level is the priority plus one for every AGEING of waiting, without end, so that nobody waits for ever.
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
"""A worker that was silent for longer is shown as lost."""


@dataclass(frozen=True)
class AvailableWorker:
    """A living worker that takes runs, its room, and how many it could take beside those it has."""

    worker: Worker
    room: placement.WorkerCapacity
    places: int


@dataclass(frozen=True)
class QueuePosition:
    """Where a run stands in the line of its class (from 1), and why it waits."""

    position: int
    words: str
    possible: bool
    """Whether a worker that is running could take it if it had nothing else to do."""


def waited_since(run: Run) -> datetime:
    """Since when it waits."""
    return run.queued_at or run.created_at


def level(run: Run, now: datetime) -> int:
    """Its priority, raised by its waiting."""
    return int(run.priority) + max(0, (now - waited_since(run)) // AGEING)


def claim_order(runs: Iterable[Run], used: Mapping[int, float], now: datetime) -> list[Run]:
    """The waiting runs in the order in which one worker that has room for any would ask for its next."""
    return sorted(
        runs, key=lambda run: (-level(run, now), used.get(run.team_id, 0.0), waited_since(run), run.pk or 2**62)
    )


def projected_order(runs: Iterable[Run], used: Mapping[int, float], now: datetime) -> list[Run]:
    """The waiting runs in the order in which they would begin, each one counting against its team from then on."""
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
    """All that wait, with what the order asks for. One query."""
    runs = Run.objects.filter(state=Run.State.QUEUED)
    return list(runs.select_related("promised").defer("log_tail", "summary"))


def room_of(worker: Worker, held: Iterable[Run]) -> placement.WorkerCapacity:
    """What the worker has, and what of it those runs leave."""
    return placement.room_of(
        worker.queues,
        worker.gpus,
        worker.memory,
        worker.runs_per_gpu,
        [placement.Allocation(tuple(run.reserved), run.memory) for run in held],
    )


def manned(now: datetime) -> list[AvailableWorker]:
    """The living workers that take runs. Two queries."""
    held = Run.objects.filter(state__in=Run.HELD).only("worker_id", "reserved", "memory", "state")
    alive = Worker.objects.filter(last_seen_at__gt=now - ALIVE, stopping=False)
    found = []
    for worker in alive.order_by("name").prefetch_related(Prefetch("runs", held, to_attr="held")):
        runs: list[Run] = worker.held
        found.append(AvailableWorker(worker, room_of(worker, runs), max(0, worker.slots - len(runs))))
    return found


def known_classes(now: datetime) -> set[str]:
    """The classes that living workers serve. One query."""
    alive = Worker.objects.filter(last_seen_at__gt=now - ALIVE, stopping=False)
    return {name for queues in alive.values_list("queues", flat=True) for name in queues}


def queue_positions(now: datetime) -> dict[int, QueuePosition]:
    """Where every waiting run stands, by its key. Four queries, or one where nothing waits."""
    runs = waiting()
    if not runs:
        return {}
    crew = manned(now)
    places: Counter[str] = Counter()
    found = {}
    for run in projected_order(runs, fair_share.used(now), now):
        places[run.queue] += 1
        found[run.pk] = standing(run, places[run.queue], crew)
    return found


def standing(run: Run, position: int, crew: Sequence[AvailableWorker]) -> QueuePosition:
    """Why that run waits, at that position among those of its class."""
    lack = missing_resources(run.needs, crew)
    if lack:
        return QueuePosition(position, f"Waits for {lack}", False)
    serving = [one for one in crew if run.queue in one.room.queues]
    line = "in line" if run.queue == device_classes.ANY else f"in line for {run.queue}"
    told = f"{ordinal(position)} {line}; {formatting.plural(len(serving), 'worker')}, {_places(serving)}"
    if run.promised and run.promised in [one.worker for one in serving]:
        told += f"; {run.promised.name} takes nothing else until it has room for it"
    return QueuePosition(position, told, True)


def missing_resources(needs: placement.ResourceRequest, crew: Sequence[AvailableWorker]) -> str:
    """What no living worker has, as in “a worker with 2 GPUs; none is running”. Empty where one could take it."""
    serving = [one.room for one in crew if needs.queue in one.room.queues]
    kind = "a worker" if needs.queue == device_classes.ANY else f"a worker of class {needs.queue}"
    if not serving:
        return f"{kind}; none is running"
    if any(placement.could_fit(needs, room) for room in serving):
        return ""
    most = max(len(room.gpus) for room in serving)
    if needs.gpus > most and not (needs.optional and not most):
        has = f"the largest that is running has {most}" if most else "none is running"
        return f"{kind} with {formatting.plural(needs.gpus, 'GPU')}; {has}"
    each = (needs.memory or 0) / max(1, needs.gpus if most else 0)
    sizes = [gpu.total for room in serving for gpu in room.gpus] if needs.gpus and most else [r.total for r in serving]
    where = "a GPU" if needs.gpus and most else "memory"
    largest = max((size for size in sizes if size is not None), default=0)
    return (
        f"{kind} with {where} of {each / placement.GIB:,.1f} GiB (by estimate); the largest that is running has "
        f"{largest / placement.GIB:,.1f} GiB"
    )


def _places(serving: Sequence[AvailableWorker]) -> str:
    free = sum(one.places for one in serving)
    return f"{formatting.plural(free, 'place')} free" if free else "no place free"


def ordinal(number: int) -> str:
    """As in 1st, 2nd, 3rd, 4th, 11th, 21st."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{ending}"
