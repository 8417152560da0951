"""Typed responses of a site. Generated from its OpenAPI document: `python manage.py export_client_types`.

Enumerations are plain strings here, and unknown fields are kept, so that a client works with newer sites.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from echoscope.answer import ENDED, Answer, RunAnswer

__all__ = [
    "ENDED",
    "Alarm",
    "Answer",
    "Checkpoint",
    "Environment",
    "EnvironmentDetail",
    "Evaluation",
    "Gpu",
    "Journal",
    "LostAt",
    "Me",
    "Membership",
    "Metric",
    "Phase",
    "Point",
    "Preset",
    "PresetDetail",
    "Run",
    "RunDetail",
    "Share",
    "Team",
    "Trajectory",
    "TrajectoryDetail",
    "Waiting",
    "Worker",
]


class Team(Answer):
    """A team, by its address and its name."""

    slug: str
    name: str


class Membership(Team):
    """A team of the caller, and the role in it."""

    role: str


class Me(Answer):
    """The authenticated caller."""

    username: str
    scopes: list[str]
    teams: list[Membership]


class Phase(Answer):
    """Current phase of a run and its progress."""

    phase: str
    iteration: int
    """1-based; 0 before the first."""
    done: int
    total: int
    unit: str
    tokens_per_second: float | None
    eta_seconds: float | None
    """To the end of the run."""


class Journal(Answer):
    """How much of a run's journal the site has read."""

    offset: int
    """Bytes read; the next piece begins here."""
    seq: int
    """Events read."""
    growing: bool
    """A run trained elsewhere whose sender announced more."""
    problem: str
    """Why reading stopped, and what to do; empty if all is well."""


class Run(RunAnswer):
    """A run, without its configuration."""

    slug: str
    url: str
    """Its page."""
    title: str
    team: Team
    author: str | None
    """User name."""
    environment: str
    preset: str
    tags: list[str]
    visibility: str
    state: str
    requested: str
    """Request that the worker has not applied yet."""
    imported: bool
    """Trained elsewhere; its journal was sent or imported."""
    iterations: int
    """Planned."""
    iteration: int
    """Finished."""
    attempt: int
    phase: Phase | None
    queue: str = "training"
    """Requested device class; “training” = any."""
    priority: str = "normal"
    gpus: int = 0
    """GPUs requested on one worker."""
    device: str
    parameters: int
    """Parameters of the policy."""
    failure: str
    """Why it failed."""
    summary: dict[str, float]
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None


class Waiting(Answer):
    """Position of a run in the queue of its device class."""

    position: int
    """1-based."""
    message: str
    """Why it waits."""
    possible: bool
    """Whether a worker that is online now could take it."""


class RunDetail(Run):
    """A run with its complete configuration."""

    config: dict[str, Any]
    """The complete RunConfig."""
    waiting: Waiting | None = None
    """Null unless it waits for a worker."""
    journal: Journal


class Metric(Answer):
    """A metric of a run, with its newest value."""

    name: str
    title: str
    section: str
    unit: str
    meaning: str
    points: int
    last_iteration: int
    last: float


class Point(Answer):
    """Consecutive iterations of a metric; a single iteration if the range has at most `buckets` of them."""

    first_iteration: int
    last_iteration: int
    min: float
    max: float
    last: float
    """Value at last_iteration."""
    tokens: int
    """Tokens sampled for training so far."""
    seconds: float
    """Working time so far."""


class Alarm(Answer):
    """A change of state of the Echo Trap detector."""

    seq: int
    iteration: int
    state: str
    message: str
    evidence: dict[str, Any]
    time: datetime


class Checkpoint(Answer):
    """A checkpoint that is still stored."""

    iteration: int
    path: str
    """Relative to the run's folder."""
    bytes: int
    time: datetime


class Evaluation(Answer):
    """Success on the fixed prompts of a suite. Iteration 0 = before training."""

    iteration: int
    suite: str
    prompts: int
    samples: int
    success: float
    success_low: float
    """95 % interval."""
    success_high: float
    pass_at: dict[str, float]
    """k → pass@k."""
    mean_reward: float
    mean_turns: float
    mean_actions: float
    final: bool
    time: datetime


class LostAt(Answer):
    """The first action after which success was out of reach."""

    turn: int
    """0-based."""
    action: int
    """0-based, within the turn."""
    reason: str


class Trajectory(Answer):
    """One episode, without its turns."""

    slug: str
    url: str
    """Its page, with the player."""
    run: str
    """Slug."""
    key: str
    """Its id in the journal."""
    iteration: int
    split: str
    suite: str
    """Evaluation suite; empty for training."""
    environment: str
    group: int
    """0-based within iteration, split and suite."""
    member: int
    """0-based within the group."""
    status: str
    end: str
    """Why it ended: terminated, turns, actions, truncated, interrupted; empty before."""
    total_reward: float
    turns: int
    actions: int
    """Executed actions."""
    tokens: int
    """Sampled tokens."""
    format_error: bool
    """At least one turn broke the format."""
    kept: bool | None
    """Whether the update used its group; null until that is decided."""
    lost_at: LostAt | None
    error: str


class TrajectoryDetail(Answer):
    """One episode with its prompt, its first board and its turns."""

    trajectory: Trajectory
    seed: int
    prompt: str
    """System message and instruction."""
    board: dict[str, Any]
    """Before the first turn."""
    hint: dict[str, Any] | None
    """Solver advice before the first turn."""
    turns: list[dict[str, Any]]
    """The journal's turn events (docs/journal.md), in order."""


class Share(Answer):
    """A share link: anyone who has it can see its trajectory."""

    token: str
    url: str
    trajectory: str
    """Slug."""
    author: str | None
    turn: int | None
    """0-based: where the player opens."""
    action: int | None
    indexable: bool
    """Whether search engines may index it."""
    views: int
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


class Environment(Answer):
    """An environment."""

    name: str
    title: str
    summary: str


class EnvironmentDetail(Environment):
    """An environment with its rules and its settings."""

    spec: dict[str, Any]
    """Rules, symbols, actions and budgets."""
    settings_schema: dict[str, Any]
    """JSON Schema of its settings."""


class Preset(Answer):
    """A shipped preset."""

    name: str
    environment: str
    title: str
    algorithm: str
    size: str
    """In words."""


class PresetDetail(Preset):
    """A shipped preset with its configuration."""

    config: dict[str, Any]


class Gpu(Answer):
    """A GPU of a worker."""

    id: str
    """Its index on the worker's machine."""
    name: str
    total: int | None
    """Memory in bytes; null if unknown."""
    free: int | None
    runs: list[str]
    """Slugs of the runs it is reserved for, as far as you may see them."""


class Worker(Answer):
    """A worker: its devices, its queues and the runs it trains."""

    name: str
    device: str
    device_class: str = ""
    """cpu, gpu, or the operator's name for it."""
    queues: list[str]
    """Device classes it serves."""
    gpus: list[Gpu] = []
    slots: int
    alive: bool
    stopping: bool
    started_at: datetime
    last_seen_at: datetime
    runs: list[str]
    """Slugs of the runs it trains, as far as you may see them."""
