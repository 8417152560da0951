"""Queue order, and the reason why each queued run is waiting.

Teams take turns: the team with the highest level comes first, then the least device use of team and author
(fair_share.py), then the longest wait. The level is the priority plus one for every AGEING of waiting, without limit,
so that no run waits forever. Between teams, high priority counts as normal: anyone can be the admin of some team. Among
its own runs, a team starts the one with the highest level (with full priority), then the least use by its author, then
the longest wait.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Prefetch

from webapp.core import formatting
from webapp.core.quotas import quota
from webapp.runs import object_storage
from webapp.runs.models import Run, Worker
from webapp.runs.queue import (
    cluster_capacity,
    device_classes,
    fair_share,
    model_availability,
    placement,
    run_quotas,
)
from webapp.runs.queue.dead_workers import live_workers
from webapp.runs.queue.fair_share import DeviceShares

AGEING = timedelta(hours=2)
CLOCK_TOLERANCE = 2.0
"""Difference between a worker's clock and the database's, in seconds, from which the workers page warns."""


@dataclass(frozen=True)
class AvailableWorker:
    """A live worker that accepts runs: its capacity, and its free slots.

    Attributes:
        ends: seconds until its runs are expected to end, as far as they are known, soonest first.
    """

    worker: Worker
    room: placement.WorkerCapacity
    places: int
    ends: tuple[float, ...] = ()


@dataclass(frozen=True)
class QueuePosition:
    """Position of a run in the queue of its class (from 1), and the reason why it waits."""

    position: int
    text: str
    possible: bool
    """True if some running worker could take it when idle."""


def waited_since(run: Run) -> datetime:
    """Return the start of the run's wait."""
    return run.queued_at or run.created_at


def level(run: Run, now: datetime) -> int:
    """Return the priority of the run within its team, raised by its wait."""
    return int(run.priority) + _ageing(run, now)


def shared_level(run: Run, now: datetime) -> int:
    """Return the priority of the run among all teams, raised by its wait: high counts as normal."""
    return min(int(run.priority), int(Run.Priority.NORMAL)) + _ageing(run, now)


def _ageing(run: Run, now: datetime) -> int:
    return max(0, (now - waited_since(run)) // AGEING)


def claim_order(runs: Iterable[Run], used: DeviceShares, now: datetime) -> list[Run]:
    """Return the waiting runs in the order in which a worker with room for any of them would claim them."""
    return _merged(runs, used, now, lambda run: 0.0)


def projected_order(runs: Iterable[Run], used: DeviceShares, now: datetime) -> list[Run]:
    """Return the waiting runs in the order of their expected starts, each adding to its team's and author's use."""
    penalty = fair_share.RUNNING_PENALTY.total_seconds()
    return _merged(runs, used, now, lambda run: fair_share.weight(_requested_gpus(run)) * penalty)


def _requested_gpus(run: Run) -> float:
    return run.gpus + cluster_capacity.requested_gpus(run.actors)


def _merged(runs: Iterable[Run], used: DeviceShares, now: datetime, charge: Callable[[Run], float]) -> list[Run]:
    """Merge the teams' queues: the next run is from the team whose turn has the highest level, then the least use.

    Args:
        charge: device-seconds that a run adds to the use by its team and author once it is placed.
    """
    spent, queues = used.copy(), _queues_of_teams(runs, now)
    heads = {team: queue.head(spent) for team, queue in queues.items()}
    order = []
    while heads:
        team = min(heads, key=lambda team: queues[team].turns[0].rank(spent.of(heads[team])))
        run = heads[team]
        order.append(run)
        queues[team].remove_head(run)
        spent.charged(run, charge(run))
        if queues[team].turns:
            heads[team] = queues[team].head(spent)
        else:
            del heads[team]
    return order


@dataclass(frozen=True)
class _Turn:
    """A turn of a team, earned by one of its runs; the team may start another run instead."""

    level: int
    since: datetime
    number: int

    def rank(self, use: float) -> tuple[int, float, datetime, int]:
        return -self.level, use, self.since, self.number


@dataclass(frozen=True)
class _TeamQueue:
    """Waiting runs of one team."""

    turns: deque[_Turn]
    """Its turns, best first."""
    levels: list[dict[int | None, deque[Run]]]
    """Its runs by author, oldest first, for each level within the team, descending."""

    def head(self, spent: DeviceShares) -> Run:
        """Return the run that starts on the team's next turn."""
        heads = (author_runs[0] for author_runs in self.levels[0].values())
        return min(heads, key=lambda run: (spent.of_person(run), *_age(run)))

    def remove_head(self, run: Run) -> None:
        self.turns.popleft()
        author_runs = self.levels[0][run.author_id]
        author_runs.popleft()
        if not author_runs:
            del self.levels[0][run.author_id]
        if not self.levels[0]:
            del self.levels[0]


def _queues_of_teams(runs: Iterable[Run], now: datetime) -> dict[int, _TeamQueue]:
    by_team: dict[int, list[Run]] = defaultdict(list)
    for run in sorted(runs, key=_age):
        by_team[run.team_id].append(run)
    queues = {}
    for team, team_runs in by_team.items():
        by_level: dict[int, dict[int | None, deque[Run]]] = defaultdict(lambda: defaultdict(deque))
        for run in team_runs:
            by_level[level(run, now)][run.author_id].append(run)
        turns = sorted(
            (_Turn(shared_level(run, now), *_age(run)) for run in team_runs), key=lambda turn: turn.rank(0.0)
        )
        queues[team] = _TeamQueue(
            deque(turns), [by_level[level_number] for level_number in sorted(by_level, reverse=True)]
        )
    return queues


def _age(run: Run) -> tuple[datetime, int]:
    return waited_since(run), run.pk or 2**62


def waiting() -> list[Run]:
    """Return all queued runs with the fields that ordering needs. One query."""
    runs = Run.objects.filter(state=Run.State.QUEUED)
    return list(runs.select_related("promised").defer("log_tail", "summary"))


def get_worker_capacity(worker: Worker, held: Iterable[Run]) -> placement.WorkerCapacity:
    """Return the capacity of the worker while it runs those runs."""
    return placement.measure_capacity(
        worker.queues,
        worker.gpus,
        worker.memory,
        worker.runs_per_gpu,
        [placement.Allocation(tuple(run.reserved), run.memory_held, run.actors) for run in held],
        worker.cluster,
    )


def workers(now: datetime) -> list[AvailableWorker]:
    """Return the live workers that accept runs. Two queries."""
    held = Run.objects.filter(state__in=Run.HELD).only(
        "worker_id", "reserved", "memory", "memory_without_gpu", "state", "config", "eta_seconds"
    )
    alive = live_workers(now).filter(stopping=False)
    available = []
    for worker in alive.order_by("name").prefetch_related(Prefetch("runs", held, to_attr="held")):
        runs: list[Run] = worker.held
        ends = tuple(sorted(run.eta_seconds for run in runs if run.eta_seconds is not None))
        available.append(
            AvailableWorker(worker, get_worker_capacity(worker, runs), max(0, worker.slots - len(runs)), ends)
        )
    return available


def known_classes(now: datetime) -> set[str]:
    """Return the device classes that live workers serve. One query."""
    served = live_workers(now).filter(stopping=False).values_list("queues", flat=True)
    return {name for queues in served for name in queues}


def continues_here(run: Run, data_folder: str) -> bool:
    """Return True if workers with that data folder have the run's files, or get them from object storage.

    Without its files, a run that has trained before would restart at iteration 0. Unknown folders count as accessible.
    """
    elsewhere = run.journal_offset and run.data_folder and data_folder and run.data_folder != data_folder
    return not elsewhere or object_storage.configured_storage() is not None


def queue_positions(now: datetime) -> dict[int, QueuePosition]:
    """Return the queue positions of all waiting runs by primary key. Four queries, one if the queue is empty.

    One more query if the running runs of a team are limited, and one for each run whose files are on a lost worker.
    """
    runs = waiting()
    if not runs:
        return {}
    order = projected_order(runs, fair_share.used(now), now)
    return positions_in_order(order, workers(now), run_quotas.teams_at_limit())


def positions_in_order(
    ordered: Iterable[Run],
    available: Sequence[AvailableWorker],
    full: Collection[int],
    shown: Collection[int] | None = None,
) -> dict[int, QueuePosition]:
    """Return queue positions by primary key.

    Args:
        ordered: all waiting runs, as `projected_order` returns them.
        full: teams that may start no further run.
        shown: primary keys of the runs whose position is requested; None: all.
    """
    places: Counter[str] = Counter()
    reserved: dict[int, Run] = {}
    positions = {}
    for run in ordered:
        places[run.queue] += 1
        if shown is None or run.pk in shown:
            positions[run.pk] = _queue_position(run, places, available, full, reserved)
        if run.promised_id is not None:
            reserved[run.promised_id] = run
    return positions


def _queue_position(
    run: Run,
    places: Mapping[str, int],
    available: Sequence[AvailableWorker],
    full: Collection[int],
    reserved: Mapping[int, Run],
) -> QueuePosition:
    """Why the run waits, and its position in the queue of its class.

    Args:
        places: number of runs of each class up to this one, in the order in which they start.
        full: teams that may start no further run.
        reserved: primary key of a worker → the earlier run for which it is reserved.
    """
    position = places[run.queue]
    lack = missing_resources(run.needs, available)
    if lack:
        return QueuePosition(position, f"Waiting for {lack}", False)
    capable = [worker for worker in available if placement.could_fit(run.needs, worker.room)]
    serving = [candidate for candidate in capable if continues_here(run, candidate.worker.data_folder)]
    if not serving:
        return QueuePosition(position, f"Waiting for {_describe_holder(run, available)}", False)
    bound = "" if len(serving) == len(capable) else "; its files are there and nowhere else"
    if lack := model_availability.missing_model(run, [candidate.worker for candidate in serving]):
        return QueuePosition(position, f"Waiting for {lack}", False)
    names = {device_classes.ANY: "in the queue", device_classes.CLUSTER: "in the queue for a Ray cluster"}
    queue = names.get(run.queue, f"in the queue for {run.queue}")
    text = f"{ordinal(position)} {queue}; {formatting.plural(len(serving), 'worker')}, {_slots(serving)}{bound}"
    if (start := _expected_start(places, serving)) is not None:
        text += f"; starts in about {formatting.duration(start)}"
    if run.team_id in full:
        most = formatting.plural(quota("RUNNING_RUNS_PER_TEAM"), "run")
        text += f"; its team already trains {most}, its maximum: it starts after one of them"
    if obstacle := _obstacle(run, serving, reserved):
        text += f"; {obstacle}"
    if run.promised and run.promised in [candidate.worker for candidate in serving]:
        others = "run with Ray actors" if run.actors else "run"
        text += f"; {run.promised.name} is reserved for it and takes no other {others}"
    return QueuePosition(position, text, True)


def _obstacle(run: Run, serving: Sequence[AvailableWorker], reserved: Mapping[int, Run]) -> str:
    """Return the reason why none of these workers, which could run it if idle, takes it now; empty if there is none.

    Args:
        reserved: as for `_queue_position`.
    """
    candidates = [worker for worker in serving if worker.places] or (serving if run.actors else [])
    fitting = [worker for worker in candidates if placement.reserve(run.needs, worker.room) is not None]
    if candidates and not fitting:
        freest = max(candidates, key=_free_resources)
        return f"waits for {placement.shortage(freest.worker.name, run.needs, freest.room)}"
    earlier = [(worker.worker.name, reserved.get(worker.worker.pk)) for worker in fitting]
    blocked = [(name, other) for name, other in earlier if other is not None and (run.actors or not other.actors)]
    if not fitting or len(blocked) < len(fitting):
        return ""
    name, other = blocked[0]
    wanted = "Ray actors" if other.actors else formatting.plural(other.gpus, "GPU")
    return f"worker {name} is reserved for an earlier run, which waits for {wanted}"


def _free_resources(worker: AvailableWorker) -> tuple[float, float, int, int]:
    """Return a key that orders workers by their free resources."""
    room = worker.room
    cluster = (room.cluster.gpus_free, room.cluster.cpus_free) if room.cluster else (0.0, 0.0)
    return *cluster, sum(gpu.runs < room.runs_per_gpu for gpu in room.gpus), room.free or 0


def _describe_holder(run: Run, available: Sequence[AvailableWorker]) -> str:
    """Describe the worker with the run's files, which cannot take it, and a remedy."""
    last = Worker.objects.filter(data_folder=run.data_folder).order_by("-last_seen_at").first()
    name = f"worker {last.name}, which has its files" if last else "the worker that has its files"
    advice = (
        f"copy the run's folder (runs/{run.slug}) into the data folder of another worker. With a shared data folder, "
        "or ECHOSCOPE_STORAGE, any worker can continue any run"
    )
    if last and last in [candidate.worker for candidate in available]:
        return f"a worker with its files: {last.name} has them, but not the devices or memory that it needs; {advice}"
    return f"{name} and is not running. Start it; or {advice}"


def missing_resources(needs: placement.ResourceRequest, available: Sequence[AvailableWorker]) -> str:
    """Describe resources that all live workers lack, e.g. “a worker with 2 GPUs; none is running”; may be empty."""
    names = {device_classes.ANY: "a worker", device_classes.CLUSTER: "a worker that stands for a Ray cluster"}
    kind = names.get(needs.queue, f"a worker of class {needs.queue}")
    candidates = [worker for worker in available if needs.queue in worker.room.queues]
    if needs.actors and candidates:
        lack, candidates = _missing_cluster(needs, kind, candidates)
        if lack:
            return lack
    serving = [worker.room for worker in candidates]
    if not serving:
        return f"{kind}; none is running"
    if any(placement.could_fit(needs, room) for room in serving):
        return ""
    max_gpus = max(len(room.gpus) for room in serving)
    if needs.gpus > max_gpus and not (needs.optional and not max_gpus):
        has = f"the largest running one has {max_gpus}" if max_gpus else "none is running"
        return f"{kind} with {formatting.plural(needs.gpus, 'GPU')}; {has}"
    largest = max(serving, key=lambda room: _largest_memory(needs, room))
    where = "a GPU" if needs.gpus_on(largest) else "memory"
    return (
        f"{kind} with {where} of {formatting.gib(needs.memory_on(largest) or 0)} GiB (estimated); the largest "
        f"running one has {formatting.gib(_largest_memory(needs, largest))} GiB"
    )


def _largest_memory(needs: placement.ResourceRequest, room: placement.WorkerCapacity) -> int:
    """Return the bytes of the largest memory on which the worker would place the run."""
    return max((gpu.total or 0 for gpu in room.gpus), default=0) if needs.gpus_on(room) else room.total or 0


def _missing_cluster(
    needs: placement.ResourceRequest, kind: str, candidates: Sequence[AvailableWorker]
) -> tuple[str, list[AvailableWorker]]:
    """Describe what these workers' clusters lack for the run's actors, and return the workers that could run them."""
    clusters = [(worker, worker.room.cluster) for worker in candidates if worker.room.cluster is not None]
    if not clusters:
        stands = "" if needs.queue == device_classes.CLUSTER else " that stands for a Ray cluster"
        return f"{kind}{stands}; none is running", []
    if able := _able(needs, candidates):
        return "", able
    for worker, cluster in clusters:
        if cluster.problem:  # it may be large enough once it answers
            return cluster_capacity.shortage(worker.worker.name, cluster, needs.actors), []
    largest, cluster = max(clusters, key=lambda pair: (pair[1].gpus, pair[1].cpus))
    return (
        f"{cluster_capacity.impossibility(largest.worker.name, cluster, needs.actors)}; no registered cluster can ever "
        "hold this run. Launch it with less (cluster.rollout_actors, cluster.learners, and the CPUs and GPUs of each), "
        "or add nodes to the cluster"
    ), []


def _able(needs: placement.ResourceRequest, candidates: Sequence[AvailableWorker]) -> list[AvailableWorker]:
    """Return the workers whose cluster could run the actors if it were idle."""
    return [
        worker
        for worker in candidates
        if worker.room.cluster is not None and worker.room.cluster.when_idle().holds(needs.actors)
    ]


def _expected_start(places: Mapping[str, int], serving: Sequence[AvailableWorker]) -> float | None:
    """Seconds until these busy workers are expected to have a slot for the run.

    Each earlier run that they could take gets the slot of a run that ends before. None if a slot is free, or if too few
    ends are known.
    """
    if any(candidate.places for candidate in serving):
        return None
    queues = {queue for candidate in serving for queue in candidate.room.queues}
    turn = sum(places[queue] for queue in queues)
    ends = sorted(end for candidate in serving for end in candidate.ends)
    return ends[turn - 1] if turn <= len(ends) else None


def _slots(serving: Sequence[AvailableWorker]) -> str:
    free = sum(worker.places for worker in serving)
    return f"{formatting.plural(free, 'slot')} free" if free else "no slot free"


def ordinal(number: int) -> str:
    """Format an ordinal: 1st, 2nd, 3rd, 4th, 11th, 21st."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{ending}"
