"""Response schemas of workers."""

from __future__ import annotations

from datetime import datetime

from ninja import Schema
from pydantic import Field


class GpuOut(Schema):
    """A GPU of a worker."""

    id: str = Field(description="Its index on the worker's machine.")
    name: str
    total: int | None = Field(description="Memory in bytes; null if unknown.")
    free: int | None
    runs: list[str] = Field(description="Slugs of the runs it is reserved for, as far as you may see them.")


class ClusterNodeOut(Schema):
    """A node of a Ray cluster, in Ray's units."""

    id: str
    name: str
    cpus: float
    cpus_free: float
    gpus: float
    gpus_free: float


class ClusterOut(Schema):
    """The Ray cluster that a worker represents."""

    problem: str = Field(description="Why it takes no run at present; empty if it does.")
    nodes: list[ClusterNodeOut]


class WorkerOut(Schema):
    """A worker: its devices, its queues and the runs it trains."""

    name: str
    device: str
    device_class: str = Field(description="cpu, gpu, or the operator's name for it.")
    queues: list[str] = Field(description="Device classes it serves.")
    gpus: list[GpuOut]
    cluster: ClusterOut | None = Field(default=None, description="Ray cluster that it stands for; null without one.")
    slots: int
    alive: bool
    stopping: bool
    started_at: datetime
    last_seen_at: datetime
    runs: list[str] = Field(description="Slugs of the runs it trains, as far as you may see them.")
