"""What the API takes and gives: the shapes, with a sentence for each field. How they are filled stands in shapes.py."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from ninja import Schema
from pydantic import ConfigDict, Field

from trainer.config.run import RunConfig

Text = Annotated[str, Field(pattern=r"^[^\x00]*$", max_length=200)]
"""PostgreSQL stores no NUL character."""
Slug = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$", max_length=40)]
Whole = Annotated[int, Field(ge=0, le=2**31 - 1)]
State = Literal["queued", "starting", "running", "paused", "stopped", "finished", "failed", "cancelled"]
Visibility = Literal["private", "team", "link"]
Priority = Literal["low", "normal", "high"]
Queue = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9_.-]+$", max_length=100, description="A device class; “training” = any worker.")
]
Gpus = Annotated[int, Field(strict=True, ge=0, le=64, description="GPUs of one worker, its own while it is trained.")]
Tag = Annotated[str, Field(pattern=r"^[^\x00]*$", min_length=1, max_length=40)]
Tags = Annotated[list[Tag], Field(max_length=20)]


class Given(Schema):
    """What a caller sends: a name that does not exist is told, not ignored."""

    model_config = ConfigDict(extra="forbid")


class TeamOut(Schema):
    slug: str
    name: str


class PhaseOut(Schema):
    """What a run is doing now, and how far it is."""

    phase: str
    iteration: int = Field(description="1-based; 0 before the first.")
    done: int
    total: int
    unit: str
    tokens_per_second: float | None
    eta_seconds: float | None = Field(description="To the end of the run.")


class JournalOut(Schema):
    """How much of a run's journal is in the database."""

    offset: int = Field(description="Bytes taken in: the next piece begins there.")
    seq: int = Field(description="Events taken in.")
    growing: bool = Field(description="A run trained elsewhere whose sender said that more is to come.")
    problem: str = Field(description="Why it cannot be read on and what to do; empty when all is well.")


class RunOut(Schema):
    """A run, without its configuration."""

    slug: str
    url: str = Field(description="Its page.")
    title: str
    team: TeamOut
    author: str | None = Field(description="User name.")
    environment: str
    preset: str
    tags: list[str]
    visibility: Visibility
    state: State
    requested: Literal["", "pause", "stop", "cancel"] = Field(description="Asked for and not yet obeyed.")
    imported: bool = Field(description="Trained elsewhere; its journal was sent or imported.")
    iterations: int = Field(description="Planned.")
    iteration: int = Field(description="Finished.")
    attempt: int
    phase: PhaseOut | None
    queue: str = Field(description="Device class that it asks for; “training” = any.")
    priority: Priority
    gpus: int = Field(description="Of one worker, as it asks for.")
    device: str
    parameters: int = Field(description="Of the policy.")
    failure: str = Field(description="Why it failed, in words.")
    summary: dict[str, float]
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None


class WaitingOut(Schema):
    """Where a run stands in the line of its device class."""

    position: int = Field(description="From 1.")
    message: str = Field(description="Why it waits, in words.")
    possible: bool = Field(description="Whether a worker that is running now could take it.")


class RunDetail(RunOut):
    """A run with its complete configuration."""

    config: dict[str, Any] = Field(description="The complete RunConfig.")
    waiting: WaitingOut | None = Field(description="Null where it does not wait for a worker.")
    journal: JournalOut


class RunPage(Schema):
    items: list[RunOut]
    next_cursor: str | None = Field(description="Give it as `cursor` for the next page; null at the end.")


class NewRun(Given):
    """A run to launch: a whole configuration, or a preset and what is different from it."""

    config: RunConfig | None = Field(default=None, description="Settings left out have their defaults.")
    preset: Text | None = Field(default=None, description="Name of a shipped preset; see /api/presets.")
    overrides: dict[str, Any] = Field(
        default_factory=dict,
        description="Dotted name of a setting → its value.",
        examples=[{"iterations": 20, "rollout.group_size": 8}],
    )
    team: Slug | None = Field(default=None, description="Needed with a session in several teams only.")
    visibility: Visibility = "team"
    queue: Queue | None = Field(default=None, description="Device class; left out, as the configuration suggests.")
    gpus: Gpus | None = Field(default=None, description="Of one worker; left out, as the configuration suggests.")
    priority: Priority = Field(default="normal", description="Only admins of the team may ask for “high”.")


class Changes(Given):
    """What is different in a clone. Several GPUs and a named device class are taken over."""

    overrides: dict[str, Any] = Field(
        default_factory=dict, description="Dotted name of a setting → its value.", examples=[{"seed": 1}]
    )
    visibility: Visibility = "team"
    queue: Queue | None = None
    gpus: Gpus | None = None
    priority: Priority = Field(default="normal", description="Only admins of the team may ask for “high”.")


class RunPatch(Given):
    """What to change; what is left out stays."""

    title: Annotated[str, Field(pattern=r"^[^\x00]*\S[^\x00]*$", max_length=200)] | None = None
    tags: Tags | None = None
    visibility: Visibility | None = Field(default=None, description="Only the author and admins may make it private.")
    priority: Priority | None = Field(default=None, description="Only admins of the team may ask for “high”.")


class RunControl(Given):
    """What to ask of a run."""

    action: Literal["pause", "resume", "stop", "cancel"]


class MetricOut(Schema):
    """A metric that a run has."""

    name: str
    title: str
    section: str
    unit: str
    meaning: str
    points: int
    last_iteration: int
    last: float


class Bucket(Schema):
    """Consecutive iterations of one metric; a single one where the range is not longer than `buckets`."""

    first_iteration: int
    last_iteration: int
    min: float
    max: float
    last: float = Field(description="Value at last_iteration.")
    tokens: int = Field(description="Sampled for training until then.")
    seconds: float = Field(description="Of work until then.")


class CurveOut(Schema):
    name: str
    points: list[Bucket]


class AlarmOut(Schema):
    """The Echo Trap watch changed its mind."""

    seq: int
    iteration: int
    state: str
    message: str
    evidence: dict[str, Any]
    time: datetime


class CheckpointOut(Schema):
    iteration: int
    path: str = Field(description="Relative to the run's folder.")
    bytes: int
    time: datetime


class EvaluationOut(Schema):
    """Success on the fixed prompts of a suite. Iteration 0 = before training."""

    iteration: int
    suite: str
    prompts: int
    samples: int
    success: float
    success_low: float = Field(description="95 % interval.")
    success_high: float
    pass_at: dict[str, float] = Field(description="k → pass@k.")
    mean_reward: float
    mean_turns: float
    mean_actions: float
    final: bool
    time: datetime


class LogOut(Schema):
    text: str = Field(description="The end of the trainer's log, at most 64 KiB; empty where nothing was written.")


class LostAt(Schema):
    """The first action after which success was out of reach."""

    turn: int = Field(description="0-based.")
    action: int = Field(description="0-based, within the turn.")
    reason: str


class TrajectoryOut(Schema):
    """One episode, without its turns."""

    slug: str
    url: str = Field(description="Its page, in the player.")
    run: str = Field(description="Slug.")
    key: str = Field(description="Its id in the journal.")
    iteration: int
    split: Literal["train", "eval"]
    suite: str = Field(description="Of an evaluation; empty for training.")
    environment: str
    group: int = Field(description="0-based within iteration, split and suite.")
    member: int = Field(description="0-based within the group.")
    status: Literal["waiting", "playing", "success", "failed"]
    end: str = Field(description="Why it ended: terminated, turns, actions, truncated, interrupted; empty before.")
    total_reward: float
    turns: int
    actions: int = Field(description="Executed.")
    tokens: int = Field(description="Sampled.")
    format_error: bool = Field(description="At least one turn broke the format.")
    kept: bool | None = Field(description="Whether the update learned from its group; null before that is decided.")
    lost_at: LostAt | None
    error: str


class TrajectoryDetail(Schema):
    """One episode with everything that was read, thought, done and earned."""

    trajectory: TrajectoryOut
    seed: int
    prompt: str = Field(description="System message and instruction.")
    board: dict[str, Any] = Field(description="Before the first turn.")
    hint: dict[str, Any] | None = Field(description="Of the solver, before the first turn.")
    turns: list[dict[str, Any]] = Field(description="The journal's turn events (docs/journal.md), in order.")


class TrajectoryPage(Schema):
    items: list[TrajectoryOut]
    next_cursor: str | None = Field(description="Give it as `cursor` for the next page; null at the end.")


class ShareOut(Schema):
    """A link that shows one trajectory to everybody who has it."""

    token: str
    url: str
    trajectory: str = Field(description="Slug.")
    author: str | None
    turn: int | None = Field(description="0-based: where the player opens.")
    action: int | None
    indexable: bool = Field(description="Search engines may list it.")
    views: int
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


class NewShare(Given):
    """A share link to make."""

    expires_at: datetime | None = Field(default=None, description="With a time zone; never without it.")
    turn: Whole | None = Field(default=None, description="0-based: where the player opens.")
    action: Whole | None = Field(default=None, description="0-based, within the turn.")
    indexable: bool = False


class EnvironmentOut(Schema):
    name: str
    title: str
    summary: str


class EnvironmentDetail(EnvironmentOut):
    spec: dict[str, Any] = Field(description="Rules, symbols, actions and budgets.")
    settings_schema: dict[str, Any] = Field(description="JSON Schema of its settings.")


class PresetOut(Schema):
    name: str
    environment: str
    title: str
    algorithm: str
    size: str = Field(description="In words.")


class PresetDetail(PresetOut):
    config: dict[str, Any]


class GpuOut(Schema):
    """A GPU of a worker."""

    id: str = Field(description="Its number on that machine.")
    name: str
    total: int | None = Field(description="Bytes of memory; null where it does not tell.")
    free: int | None
    runs: list[str] = Field(description="Slugs of those runs it is reserved for that you may see.")


class WorkerOut(Schema):
    name: str
    device: str
    device_class: str = Field(description="cpu, gpu, or as its operator named it.")
    queues: list[str] = Field(description="Device classes that it serves.")
    gpus: list[GpuOut]
    slots: int
    alive: bool
    stopping: bool
    started_at: datetime
    last_seen_at: datetime
    runs: list[str] = Field(description="Slugs of those runs it trains that you may see.")


class Me(Schema):
    """Who the caller is."""

    username: str
    scopes: list[str]
    teams: list[MembershipOut]


class MembershipOut(Schema):
    slug: str
    name: str
    role: Literal["viewer", "member", "admin"]


Me.model_rebuild()
