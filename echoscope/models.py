"""What a site answers, typed. Fields that a newer site adds are kept as extras, so that old clients go on working."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict

ENDED = ("stopped", "finished", "failed", "cancelled")


class Answer(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)


class Team(Answer):
    slug: str
    name: str


class Membership(Team):
    role: str


class Me(Answer):
    username: str
    scopes: list[str]
    teams: list[Membership]


class Phase(Answer):
    """What a run is doing now, and how far it is."""

    phase: str
    iteration: int
    done: int
    total: int
    unit: str
    tokens_per_second: float | None
    eta_seconds: float | None


class Journal(Answer):
    """How much of a run's journal the site knows: the next piece begins at `offset`."""

    offset: int
    seq: int
    growing: bool
    problem: str


class Run(Answer):
    """A run, as lists show it."""

    slug: str
    url: str
    title: str
    team: Team
    author: str | None
    environment: str
    preset: str
    tags: list[str]
    visibility: str
    state: str
    requested: str
    imported: bool
    iterations: int
    iteration: int
    attempt: int
    phase: Phase | None
    queue: str = "training"
    priority: str = "normal"
    gpus: int = 0
    device: str
    parameters: int
    failure: str
    summary: dict[str, float]
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None

    @property
    def ended(self) -> bool:
        """Whether nothing more is to be expected unless somebody resumes it."""
        return self.state in ENDED


class Waiting(Answer):
    """Where a run stands in the line of its device class, from 1, and why it waits."""

    position: int
    message: str
    possible: bool


class RunDetail(Run):
    """A run with its complete configuration."""

    waiting: Waiting | None = None
    config: dict[str, Any]
    journal: Journal


class Metric(Answer):
    """A metric that a run has, with its newest value."""

    name: str
    title: str
    section: str
    unit: str
    meaning: str
    points: int
    last_iteration: int
    last: float


class Point(Answer):
    """Consecutive iterations of a metric; mostly a single one."""

    first_iteration: int
    last_iteration: int
    min: float
    max: float
    last: float
    tokens: int
    seconds: float


class Alarm(Answer):
    seq: int
    iteration: int
    state: str
    message: str
    evidence: dict[str, Any]
    time: datetime


class Checkpoint(Answer):
    iteration: int
    path: str
    bytes: int
    time: datetime


class Evaluation(Answer):
    """Success on the fixed prompts of a suite, with its 95 % interval."""

    iteration: int
    suite: str
    prompts: int
    samples: int
    success: float
    success_low: float
    success_high: float
    pass_at: dict[str, float]
    mean_reward: float
    mean_turns: float
    mean_actions: float
    final: bool
    time: datetime


class LostAt(Answer):
    """The first action after which success was out of reach. Both count from 0."""

    turn: int
    action: int
    reason: str


class Trajectory(Answer):
    """One episode, as lists show it."""

    slug: str
    url: str
    run: str
    key: str
    iteration: int
    split: str
    suite: str
    environment: str
    group: int
    member: int
    status: str
    end: str
    total_reward: float
    turns: int
    actions: int
    tokens: int
    format_error: bool
    kept: bool | None
    lost_at: LostAt | None
    error: str


class TrajectoryDetail(Answer):
    """One episode with its turns, as the journal told them."""

    trajectory: Trajectory
    seed: int
    prompt: str
    board: dict[str, Any]
    hint: dict[str, Any] | None
    turns: list[dict[str, Any]]


class Share(Answer):
    """A link that shows one trajectory to everybody who has it."""

    token: str
    url: str
    trajectory: str
    author: str | None
    turn: int | None
    action: int | None
    indexable: bool
    views: int
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


class Environment(Answer):
    name: str
    title: str
    summary: str


class EnvironmentDetail(Environment):
    spec: dict[str, Any]
    settings_schema: dict[str, Any]


class Preset(Answer):
    name: str
    environment: str
    title: str
    algorithm: str
    size: str


class PresetDetail(Preset):
    config: dict[str, Any]


class Gpu(Answer):
    """A GPU of a worker; sizes in bytes, None where it does not tell."""

    id: str
    name: str
    total: int | None
    free: int | None
    runs: list[str]


class Worker(Answer):
    name: str
    device: str
    device_class: str = ""
    queues: list[str]
    gpus: list[Gpu] = []
    slots: int
    alive: bool
    stopping: bool
    started_at: datetime
    last_seen_at: datetime
    runs: list[str]
