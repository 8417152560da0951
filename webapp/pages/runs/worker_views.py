"""Workers page: devices, memory and runs of each worker, and the queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.auth.decorators import login_required
from django.db.models import Prefetch
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from trainer.metrics.charts import spark
from webapp.core import formatting
from webapp.core.database import database_now
from webapp.runs import object_storage
from webapp.runs.model_cards import cards as model_cards
from webapp.runs.models import Run, Worker
from webapp.runs.queue import device_classes, fair_share, order, run_quotas
from webapp.runs.queue.capacity import Capacity, capacity
from webapp.runs.queue.dead_workers import is_alive
from webapp.teams.access import signed_in
from webapp.worker.usage import SAMPLES

MAX_WAITING = 50
USAGE = {"cpu": "CPU", "memory": "Memory", "gpu": "GPU"}
SPARK = (80, 18)


@dataclass(frozen=True)
class UsageLine:
    """A share in use now, and the points of its line over the last ten minutes."""

    title: str
    share: float
    points: str


@dataclass(frozen=True)
class GpuCard:
    """A GPU of a worker and its reservations. `hidden` counts runs of teams that the user is not in."""

    id: str
    name: str
    memory: str
    share: float | None
    runs: list[Run]
    hidden: int


@dataclass(frozen=True)
class ResourceShare:
    """CPUs or GPUs of a cluster or of one of its nodes, in Ray's units."""

    unit: str
    total: float
    free: float

    @property
    def busy(self) -> float:
        """The share reserved by actors."""
        return min(1.0, max(0.0, 1 - self.free / self.total))

    @property
    def text(self) -> str:
        """Summary, e.g. “3 of 8 GPUs busy, 5 free”."""
        units = self.unit if self.total == 1 else f"{self.unit}s"
        return f"{self.total - self.free:g} of {self.total:g} {units} busy, {self.free:g} free"


@dataclass(frozen=True)
class NodeCard:
    """A node of a worker's Ray cluster."""

    name: str
    shares: list[ResourceShare]
    """GPUs, then CPUs; empty for a node that provides none, such as a driver's."""


@dataclass(frozen=True)
class ClusterCard:
    """The Ray cluster of a worker. `problem`: reason why it accepts no run at present."""

    problem: str
    nodes: list[NodeCard]
    shares: list[ResourceShare]


@dataclass
class WorkerCard:
    """A worker on the page. `hidden` counts runs of teams that the user is not in."""

    worker: Worker
    alive: bool
    held: list[Run]
    hidden: int
    silent: str
    gpus: list[GpuCard]
    apart: bool = False
    """True if its data folder differs from the other live workers', and no object storage is configured."""

    @property
    def state(self) -> tuple[str, str]:
        """CSS state and label."""
        if not self.alive:
            return "failed", "Lost"
        if self.worker.stopping:
            return "stopping", "Stopping"
        return ("running", "Busy") if self.held or self.hidden else ("queued", "Free")

    @property
    def clock(self) -> str:
        """Warning about a wrong clock; empty if it is right."""
        offset = self.worker.clock_offset
        if not self.alive or abs(offset) <= order.CLOCK_TOLERANCE:
            return ""
        direction = "ahead of" if offset > 0 else "behind"
        return f"Its clock is {formatting.duration(abs(offset))} {direction} the database's: synchronise it (NTP)."

    @property
    def files(self) -> str:
        """Warning about a separate data folder without object storage; empty if runs can move between workers."""
        if not self.alive or not self.apart:
            return ""
        return (
            "It has a data folder of its own: runs that began elsewhere cannot continue here, nor its runs elsewhere. "
            "Share the data folder, or set ECHOSCOPE_STORAGE on all machines."
        )

    @property
    def weaknesses(self) -> list[str]:
        """Warnings about limits that its trainers lack; empty for a lost worker."""
        return self.worker.weaknesses if self.alive else []

    @property
    def cluster(self) -> ClusterCard | None:
        """Nodes of its Ray cluster; None without one, and for a lost worker."""
        cluster = self.worker.cluster
        if not self.alive or not cluster:
            return None
        nodes = [NodeCard(node["name"], _shares([node])) for node in cluster["nodes"]]
        return ClusterCard(cluster["problem"], nodes, _shares(cluster["nodes"]))

    @property
    def usage(self) -> list[UsageLine]:
        """Measured use of processor, memory and GPUs over the last minutes; empty for a lost worker."""
        if not self.alive:
            return []
        histories = [(title, self.worker.usage.get(key)) for key, title in USAGE.items()]
        return [UsageLine(title, history[-1], _spark(history)) for title, history in histories if history]

    @property
    def disk(self) -> str:
        """Free disk space; empty if it is unknown."""
        usage = self.worker.usage
        return _free({"free": usage["disk_free"], "total": usage["disk_total"]}) if "disk_total" in usage else ""

    @property
    def memory(self) -> list[tuple[str, str, float]]:
        """(name, text, share in use) of the machine, and of its GPUs if `gpus` is empty."""
        devices = self.worker.memory[:1] if self.gpus else self.worker.memory
        return [(device["name"], _free(device), used(device)) for device in devices if device.get("total")]


@dataclass(frozen=True)
class QueueCard:
    """A queue: its waiting runs, the live workers that serve it, and the number of runs that these can still start."""

    name: str
    waiting: int
    workers: int
    free: int

    @property
    def title(self) -> str:
        known = {
            device_classes.ANY: "Any worker",
            device_classes.CPU: "CPU only",
            device_classes.GPU: "GPU",
            device_classes.CLUSTER: "Ray cluster",
        }
        return known.get(self.name, f"Class {self.name}")

    @property
    def text(self) -> str:
        """Summary, e.g. “2 runs waiting · 1 worker, all busy”."""
        runs = f"{formatting.plural(self.waiting, 'run')} waiting" if self.waiting else "no run waiting"
        if not self.workers:
            return runs
        workers = formatting.plural(self.workers, "worker")
        room = f"room for {formatting.plural(self.free, 'more run')}" if self.free else "all busy"
        return f"{runs} · {workers}, {room}"


@dataclass(frozen=True)
class WaitingRun:
    """A queued run with its position."""

    run: Run | None
    position: int
    queue: str
    since: str
    text: str
    priority: str
    """Empty for normal priority."""


def _shares(nodes: Sequence[dict[str, Any]]) -> list[ResourceShare]:
    """Return the GPUs and CPUs of these nodes together, without kinds that they lack."""
    totals = (
        ResourceShare(unit, sum(node[key] for node in nodes), sum(node[f"{key}_free"] for node in nodes))
        for unit, key in (("GPU", "gpus"), ("CPU", "cpus"))
    )
    return [share for share in totals if share.total]


def _spark(shares: Sequence[float]) -> str:
    """Return the points of an SVG polyline, the newest at the right end."""
    return spark([shares[0], *shares] if len(shares) == 1 else shares, SPARK, span=(0, 1), slots=SAMPLES)


def used(device: dict[str, Any]) -> float:
    """Return the share of a device's memory that is in use."""
    return min(1.0, max(0.0, 1 - float(device["free"]) / float(device["total"])))


def _free(device: dict[str, Any]) -> str:
    return f"{formatting.gib(device['free'])} of {formatting.gib(device['total'])} GiB free"


@login_required
@require_GET
@never_cache
def workers(request: HttpRequest) -> HttpResponse:
    """Show workers and queues. All users see the machines, only a run's team sees the run."""
    now = database_now()
    mine = Run.objects.listed_for(request.user).values("pk")
    held = Run.objects.filter(state__in=Run.HELD).defer("log_tail", "summary")
    all_workers = list(Worker.objects.order_by("name").prefetch_related(Prefetch("runs", held, to_attr="held")))
    visible = set(Run.objects.filter(pk__in=mine, state__in=(Run.State.QUEUED, *Run.HELD)).values_list("pk", flat=True))
    cards = [_card(worker, visible, now) for worker in all_workers]
    _mark_apart(cards)
    queued = order.projected_order(order.waiting(), fair_share.used(now), now)
    stores = model_cards.listings(signed_in(request))
    context = {
        "page": "workers",
        "workers": sorted(cards, key=lambda card: (not card.alive, card.worker.name)),
        "waiting": _waiting(queued, visible, order.workers(now) if queued else [], now)[:MAX_WAITING],
        "queued": len(queued),
        "stores": stores,
        "busy_stores": any(row.status.changing for store in stores for row in store.rows),
        "queues": _queues(queued, capacity(all_workers, now)),
    }
    part = request.headers.get("HX-Request")
    return render(request, "pages/_workers.html" if part else "pages/workers.html", context)


def _card(worker: Worker, visible: set[int], now: Any) -> WorkerCard:
    runs: list[Run] = worker.held  # type: ignore[attr-defined]
    visible_runs = [run for run in runs if run.pk in visible]
    for run in visible_runs:
        run.progress = formatting.progress(run.phase_facts, run.length, run.state)  # type: ignore[attr-defined]
        run.phase_text = formatting.phase_text(run.phase_facts, run.length) or "starting"  # type: ignore[attr-defined]
    silence = formatting.duration((now - worker.last_seen_at).total_seconds())
    gpus = [_gpu(gpu, runs, visible) for gpu in worker.gpus]
    return WorkerCard(worker, is_alive(worker, now), visible_runs, len(runs) - len(visible_runs), silence, gpus)


def _mark_apart(cards: Sequence[WorkerCard]) -> None:
    """Mark live workers with a data folder that differs from the most common one."""
    folders = Counter(card.worker.data_folder for card in cards if card.alive and card.worker.data_folder)
    if len(folders) < 2 or object_storage.configured_storage() is not None:
        return
    ((usual, _),) = folders.most_common(1)
    for card in cards:
        folder = card.worker.data_folder
        card.apart = bool(folder) and (folder != usual or folders[folder] == 1)


def _gpu(gpu: dict[str, Any], held: list[Run], visible: set[int]) -> GpuCard:
    users = [run for run in held if gpu["id"] in run.reserved]
    measured = bool(gpu["total"]) and gpu["free"] is not None
    visible_runs = [run for run in users if run.pk in visible]
    return GpuCard(
        gpu["id"],
        gpu["name"],
        _free(gpu) if measured else "memory unknown",
        used(gpu) if measured else None,
        visible_runs,
        len(users) - len(visible_runs),
    )


def _waiting(
    queued: list[Run], visible: set[int], crew: Sequence[order.AvailableWorker], now: datetime
) -> list[WaitingRun]:
    positions = order.positions_in_order(queued, crew, run_quotas.teams_at_limit(), visible)
    rows = []
    for run in queued:
        if standing := positions.get(run.pk):
            since = formatting.duration((now - order.waited_since(run)).total_seconds())
            priority = "" if run.priority == Run.Priority.NORMAL else f"{run.get_priority_display().lower()} priority"
            rows.append(WaitingRun(run, standing.position, run.queue, since, standing.text, priority))
    return rows


def _queues(queued: list[Run], capacity: Capacity) -> list[QueueCard]:
    """Return every queue with a worker or a run, starting with the queue for any worker."""
    waiting = Counter(run.queue for run in queued)
    names = sorted({*waiting, *capacity.workers}, key=lambda name: (name != device_classes.ANY, name))
    return [QueueCard(name, waiting[name], capacity.workers.get(name, 0), capacity.free.get(name, 0)) for name in names]
