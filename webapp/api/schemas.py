"""Request and response schemas of the API. echoscope/models.py is generated from them (export_client_types)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from ninja import Path, Query, Schema
from pydantic import ConfigDict, Field, StrictBool

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
Gpus = Annotated[int, Field(strict=True, ge=0, le=64, description="GPUs reserved on one worker.")]
Tag = Annotated[str, Field(pattern=r"^[^\x00]*$", min_length=1, max_length=40)]
Tags = Annotated[list[Tag], Field(max_length=20)]
GroupName = Annotated[str, Field(pattern=r"^[^\x00]*$", max_length=80, description="Group of runs, as an experiment.")]
RunSlug = Annotated[Slug, Path(description="The run's public id, as in its address.")]
TrajectorySlug = Annotated[Slug, Path(description="The trajectory's public id, as in its address.")]
ImageHash = Annotated[
    str, Path(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the image's file, in hexadecimal digits.")
]
Limit = Annotated[int, Field(ge=1, le=100, description="Items on a page.")]
Cursor = Annotated[str | None, Field(max_length=500, description="`next_cursor` of the page before.")]
CatalogueName = Annotated[
    str, Path(max_length=100, pattern=r"^[^\x00/]+$", description="Name of the environment or preset, as listed.")
]
"""Name of an environment or a preset, in an address."""
VariantId = Annotated[
    str, Query(max_length=100, pattern=r"^[^\x00]*$", description="A variant of an adapter; empty for its default one.")
]
"""Id of a variant, in the query of an address."""


class StrictSchema(Schema):
    """Base of request bodies: unknown fields are errors."""

    model_config = ConfigDict(extra="forbid")


class TeamOut(Schema):
    """A team, by its address and its name."""

    slug: str
    name: str


class UpdateProgressOut(Schema):
    """Part of an update that is being computed."""

    stage: str = Field(description="prepare, reference, old, values, diagnostics or step.")
    pass_number: int = Field(description="Pass over the rollout, from 1; 0 before the first.")
    passes: int = Field(description="Planned passes.")
    groups: list[int] = Field(description="Groups with trajectories in the current micro-batch.")


class PhaseOut(Schema):
    """Current phase of a run and its progress."""

    phase: str
    iteration: int = Field(description="1-based; 0 before the first.")
    done: int
    total: int
    unit: str
    tokens_per_second: float | None
    eta_seconds: float | None = Field(description="To the end of the run.")
    eta_low_seconds: float | None = Field(description="The same at the pace of fast iterations.")
    eta_high_seconds: float | None = Field(description="The same at the pace of slow iterations.")
    share: float | None = Field(description="Completed share of the phase, 0 to 1.")
    iteration_shares: dict[str, float] | None = Field(
        description="Phase → its expected share of this iteration's time, in order."
    )
    update: UpdateProgressOut | None = Field(description="For the phase update.")


class JournalOut(Schema):
    """How much of a run's journal the site has read."""

    offset: int = Field(description="Bytes read; the next piece begins here.")
    seq: int = Field(description="Events read.")
    growing: bool = Field(description="A run trained elsewhere whose sender announced more.")
    problem: str = Field(description="Why reading stopped, and what to do; empty if all is well.")


class ObservationImageOut(Schema):
    """An image that a policy saw, as turns refer to it."""

    sha256: str = Field(description="Of the file, in hexadecimal digits.")
    media_type: str = Field(description="image/png, image/jpeg or image/webp.")
    width: int = Field(description="Pixels.")
    height: int = Field(description="Pixels.")
    bytes: int = Field(description="Of the file.")


class RunOut(Schema):
    """A run, without its configuration."""

    slug: str
    url: str = Field(description="Its page.")
    title: str
    team: TeamOut | None = Field(description="Null for readers outside the team.")
    author: str | None = Field(description="User name. Null for readers outside the team.")
    environment: str
    preset: str
    tags: list[str]
    group: str = Field(description="Group of runs that it belongs to; empty for none.")
    notes: str = Field(description="What the team wrote about the run, in Markdown.")
    archived_at: datetime | None = Field(description="Since when lists leave it out; null if they show it.")
    visibility: Visibility
    state: State
    requested: Literal["", "pause", "stop", "cancel"] = Field(
        description="Request that the worker has not applied yet."
    )
    imported: bool = Field(description="Trained elsewhere; its journal was sent or imported.")
    iterations: int = Field(description="Planned.")
    iteration: int = Field(description="Finished.")
    attempt: int
    phase: PhaseOut | None
    queue: str = Field(description="Requested device class; “training” = any.")
    priority: Priority
    gpus: int = Field(description="GPUs requested on one worker.")
    device: str
    parameters: int = Field(description="Parameters of the policy.")
    failure: str = Field(description="Why it failed.")
    summary: dict[str, float]
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None


class WaitingOut(Schema):
    """Position of a run in the queue of its device class."""

    position: int = Field(description="1-based.")
    message: str = Field(description="Why it waits.")
    possible: bool = Field(description="Whether a worker that is online now could take it.")


class RunDetail(RunOut):
    """A run with its complete configuration."""

    config: dict[str, Any] = Field(description="The complete RunConfig.")
    waiting: WaitingOut | None = Field(description="Null unless it waits for a worker.")
    journal: JournalOut


class RunPage(Schema):
    """A page of a list of runs."""

    items: list[RunOut]
    next_cursor: str | None = Field(description="`cursor` of the next page; null on the last one.")


class NewRun(StrictSchema):
    """A run to launch: a complete configuration, or a preset with overrides."""

    config: RunConfig | None = Field(default=None, description="Omitted settings take their defaults.")
    preset: Text | None = Field(default=None, description="Name of a shipped preset; see /api/presets.")
    overrides: dict[str, Any] = Field(
        default_factory=dict,
        description="Dotted name of a setting → its value.",
        examples=[{"iterations": 20, "rollout.group_size": 8}],
    )
    team: Slug | None = Field(default=None, description="Required only with a session whose user is in several teams.")
    visibility: Visibility = "team"
    queue: Queue | None = Field(default=None, description="Device class; default: as the configuration suggests.")
    gpus: Gpus | None = Field(default=None, description="GPUs on one worker; default: as the configuration suggests.")
    priority: Priority = Field(default="normal", description="“high” is reserved for admins of the team.")
    group: GroupName = ""


class CloneOptions(StrictSchema):
    """Differences of a clone. GPU count and device class default to those of the source."""

    overrides: dict[str, Any] = Field(
        default_factory=dict, description="Dotted name of a setting → its value.", examples=[{"seed": 1}]
    )
    visibility: Visibility = "team"
    queue: Queue | None = None
    gpus: Gpus | None = None
    priority: Priority = Field(default="normal", description="“high” is reserved for admins of the team.")
    group: GroupName = ""


class RunPatch(StrictSchema):
    """Fields to change; omitted fields keep their values."""

    title: Annotated[str, Field(pattern=r"^[^\x00]*\S[^\x00]*$", max_length=200)] | None = None
    tags: Tags | None = None
    notes: Annotated[str, Field(pattern=r"^[^\x00]*$", max_length=20_000)] | None = Field(
        default=None, description="Markdown."
    )
    archived: StrictBool | None = Field(default=None, description="Only runs that have ended can be archived.")
    visibility: Visibility | None = Field(default=None, description="Only the author and admins may make it private.")
    priority: Priority | None = Field(default=None, description="“high” is reserved for admins of the team.")
    group: GroupName | None = None


class RunControl(StrictSchema):
    """A request to a run."""

    action: Literal["pause", "resume", "stop", "cancel", "undo-cancel"] = Field(
        description="“undo-cancel” is possible for ten minutes after a cancellation."
    )


class MetricOut(Schema):
    """A metric of a run, with its newest value."""

    name: str
    title: str
    section: str
    unit: str
    meaning: str
    points: int
    last_iteration: int
    last: float


class Bucket(Schema):
    """Consecutive iterations of a metric; a single iteration if the range has at most `buckets` of them."""

    first_iteration: int
    last_iteration: int
    min: float
    max: float
    last: float = Field(description="Value at last_iteration.")
    tokens: int = Field(description="Tokens sampled for training so far.")
    seconds: float = Field(description="Working time so far.")


class CurveOut(Schema):
    """Points of one metric."""

    name: str
    points: list[Bucket]


class AlarmOut(Schema):
    """A change of state of the Echo Trap detector."""

    seq: int
    iteration: int
    state: str
    message: str
    evidence: dict[str, Any]
    time: datetime


class CheckpointOut(Schema):
    """A checkpoint that is still stored."""

    iteration: int
    path: str = Field(description="Relative to the run's folder.")
    bytes: int
    time: datetime


class EvaluationOut(Schema):
    """Success on the fixed puzzles of a suite. Iteration 0 = before training."""

    iteration: int
    suite: str
    prompts: int
    samples: int
    success: float
    success_low: float = Field(description="95% interval.")
    success_high: float
    pass_at: dict[str, float] = Field(description="k → pass@k.")
    mean_reward: float
    mean_turns: float
    mean_actions: float
    final: bool
    time: datetime


class EvaluatedPolicyOut(Schema):
    """A row of a generalization matrix."""

    name: str
    source: str = Field(description="Folder, hub id or run that it was read from.")
    trained_on: str | None = Field(description="Its environments, joined by “ + ”; null if unknown.")


class GeneralizationCellOut(Schema):
    """Result of one policy in one suite."""

    policy: str
    suite: str
    prompts: int
    samples: int = 1
    success: float
    success_low: float = Field(description="95% interval.")
    success_high: float
    mean_reward: float


class GeneralizationOut(Schema):
    """Generalization matrix: several policies evaluated in the same suites."""

    suites: list[str]
    policies: list[EvaluatedPolicyOut]
    cells: list[GeneralizationCellOut]
    time: datetime


class LogOut(Schema):
    """The end of a run's log."""

    text: str = Field(description="The last 64 KiB of the trainer's log; empty if there is none.")


class LostAt(Schema):
    """The first action after which success was out of reach."""

    turn: int = Field(description="0-based.")
    action: int = Field(description="0-based, within the turn.")
    reason: str


class TrajectoryOut(Schema):
    """One episode, without its turns."""

    slug: str
    url: str = Field(description="Its page, with the player.")
    run: str = Field(description="Slug.")
    key: str = Field(description="Its id in the journal.")
    iteration: int
    split: Literal["train", "eval"]
    suite: str = Field(description="Evaluation suite; empty for training.")
    environment: str
    group: int = Field(description="0-based within iteration, split and suite.")
    member: int = Field(description="0-based within the group.")
    status: Literal["waiting", "playing", "success", "failed", "interrupted", "unknown"]
    end: str = Field(description="Why it ended: terminated, turns, actions, truncated, interrupted; empty before.")
    end_reason: str = Field(
        description="How it ended, as a code: solved, why it was lost (box_corner, …), what ran out; empty before."
    )
    total_reward: float | None = Field(description="null: none was recorded.")
    turns: int
    actions: int = Field(description="Executed actions.")
    tokens: int = Field(description="Sampled tokens.")
    format_error: bool = Field(description="At least one turn broke the format.")
    true_claims: int | None = Field(
        description="Statements of its thoughts that hold; null where thoughts were not compared with the state."
    )
    false_claims: int | None = Field(description="Statements of its thoughts that do not hold; null likewise.")
    false_claim_kinds: list[str] = Field(description="What its false claims are about (docs/claims.md), sorted.")
    worst_mark: Literal["none", "inaccuracy", "mistake", "blunder", "unknown"] | None = Field(
        description="Its worst mark; `unknown` where no solver judges it, null until it has been judged after its end."
    )
    first_mistake_turn: int | None = Field(
        description="Turn of its first mistake or blunder, 0-based; null where there is none."
    )
    kept: bool | None = Field(description="Whether the update used its group; null until that is decided.")
    lost_at: LostAt | None
    error: str


class MarkOut(Schema):
    """A mistake, judged by the environment's solver (docs/player.md)."""

    turn: int = Field(description="0-based.")
    action: int = Field(description="0-based, within the turn.")
    kind: Literal["inaccuracy", "mistake", "blunder"]
    glyph: Literal["?!", "?", "??"]
    played: str = Field(description="The action.")
    better: list[str] = Field(description="The best actions instead, best first.")
    value: float = Field(description="Value of best play before it, 0 to 1: a chance of success under random dynamics.")
    kept: float = Field(description="Value that the action left; under random dynamics its expectation.")
    loss: float = Field(description="`value` − `kept`.")
    sentence: str
    cells: list[list[int]] = Field(description="Row and column, 0-based, of the box or player that it is about.")
    origin: list[int] = Field(description="Row and column of the player before it; empty without a grid.")
    dead_end: bool = Field(description="Success was impossible after it.")


class VerdictOut(Schema):
    """Why a failed attempt was not solved, and the position that shows it."""

    kind: Literal["mistake", "slip", "budget"] = Field(
        description="A mistake, bad luck after a good action, or turns and actions ran out."
    )
    turn: int = Field(description="0-based.")
    action: int = Field(description="0-based, within the turn; -1: its start.")
    sentence: str


class TrajectoryDetail(Schema):
    """One episode with its prompt, its first board and its turns."""

    trajectory: TrajectoryOut
    seed: int
    prompt: str = Field(description="The task, before the first state.")
    board: dict[str, Any] = Field(description="Before the first turn.")
    hint: dict[str, Any] | None = Field(description="Solver advice before the first turn.")
    turns: list[dict[str, Any]] = Field(description="The journal's turn events (docs/journal.md), in order.")
    marks: list[MarkOut] = Field(description="Its mistakes in order; empty where the environment has no solver.")
    verdict: VerdictOut | None = Field(
        description="Of a failed attempt; null otherwise, and where the solver is silent."
    )
    recorded: bool = Field(description="Of a run of another trainer: its responses have no format of Echoscope's.")


class TrajectoryPage(Schema):
    """A page of a list of trajectories."""

    items: list[TrajectoryOut]
    next_cursor: str | None = Field(description="`cursor` of the next page; null on the last one.")


class ShareOut(Schema):
    """A share link: anyone who has it can see its trajectory."""

    token: str
    url: str
    trajectory: str = Field(description="Slug.")
    author: str | None
    turn: int | None = Field(description="0-based: where the player opens.")
    action: int | None
    indexable: bool = Field(description="Whether search engines may index it.")
    views: int
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


class NewShare(StrictSchema):
    """A share link to make."""

    expires_at: datetime | None = Field(default=None, description="With a time zone; omitted = never.")
    turn: Whole | None = Field(default=None, description="0-based: where the player opens.")
    action: Whole | None = Field(default=None, description="0-based, within the turn.")
    indexable: bool = False


class EnvironmentOut(Schema):
    """An environment."""

    name: str
    title: str
    summary: str


class EnvironmentDetail(EnvironmentOut):
    """An environment with its rules and its settings."""

    spec: dict[str, Any] = Field(description="Rules, symbols, actions and budgets.")
    settings_schema: dict[str, Any] = Field(description="JSON Schema of its settings.")
    variants: dict[str, str] = Field(
        default={}, description="Of an adapter: variants by id, with a few words about each."
    )


class PresetOut(Schema):
    """A shipped preset."""

    name: str
    environment: str
    title: str
    algorithm: str
    size: str = Field(description="In words.")


class PresetDetail(PresetOut):
    """A shipped preset with its configuration."""

    config: dict[str, Any]


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
    """The Ray cluster that a worker stands for."""

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


class Me(Schema):
    """The authenticated caller."""

    username: str
    scopes: list[str]
    teams: list[MembershipOut]


class MembershipOut(Schema):
    """A team of the caller, and the role in it."""

    slug: str
    name: str
    role: Literal["viewer", "member", "admin"]


Me.model_rebuild()
