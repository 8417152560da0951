"""Endpoint of the workers."""

from __future__ import annotations

from typing import Any

from django.db.models import Prefetch
from django.http import HttpRequest
from ninja import Router

from webapp.api.auth import caller
from webapp.api.errors import refused
from webapp.api.schemas.worker_schemas import ClusterOut, GpuOut, WorkerOut
from webapp.core.database import database_now
from webapp.runs.models import Run, Worker
from webapp.runs.queue.dead_workers import is_alive

router = Router(tags=["catalogue"])


@router.get(
    "/workers",
    response={200: list[WorkerOut]} | refused(),
    operation_id="list_workers",
    summary="List workers",
)
def list_workers(request: HttpRequest) -> list[WorkerOut]:
    """Workers with their devices, queues and runs; only runs that you may see are listed."""
    now = database_now()
    held = Prefetch("runs", caller(request).runs().filter(state__in=Run.HELD), to_attr="held")
    return [
        WorkerOut(
            name=worker.name,
            device=worker.device,
            device_class=worker.device_class,
            queues=worker.queues,
            slots=worker.slots,
            gpus=[_gpu(gpu, worker.held) for gpu in worker.gpus],
            cluster=ClusterOut(**worker.cluster) if worker.cluster else None,
            alive=is_alive(worker, now),
            stopping=worker.stopping,
            started_at=worker.started_at,
            last_seen_at=worker.last_seen_at,
            runs=[run.slug for run in worker.held],
        )
        for worker in Worker.objects.order_by("name").prefetch_related(held)
    ]


def _gpu(gpu: dict[str, Any], held: list[Run]) -> GpuOut:
    return GpuOut(**gpu, runs=[run.slug for run in held if gpu["id"] in run.reserved])
