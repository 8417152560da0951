"""Request and response schemas of runs."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from ninja import Schema
from pydantic import Field, StrictBool

from trainer.config.changes import CHANGEABLE
from trainer.config.run import RunConfig
from webapp.api.schemas.shared_schemas import (
    Gpus,
    GroupName,
    Priority,
    Queue,
    Slug,
    State,
    StrictSchema,
    Tags,
    TeamOut,
    Text,
    Visibility,
)


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
    """Progress of the site in reading a run's journal."""

    offset: int = Field(description="Bytes read; the next piece begins here.")
    seq: int = Field(description="Events read.")
    growing: bool = Field(description="A run trained elsewhere whose sender announced more.")
    problem: str = Field(description="Why reading stopped, and what to do; empty if all is well.")
    left_out: list[str] = Field(description="Lines of this request in whose place there is a notice, and why.")


class ObservationImageOut(Schema):
    """An image that a policy saw, as turns refer to it."""

    sha256: str = Field(description="Of the file, in hexadecimal digits.")
    media_type: str = Field(description="image/png, image/jpeg or image/webp.")
    width: int = Field(description="Pixels.")
    height: int = Field(description="Pixels.")
    bytes: int = Field(description="Of the file.")


class ConditionOut(Schema):
    """Trouble of a run: of its policy, as the Echo Trap detector names it, or of what it is trained with."""

    state: Literal["watch", "trapped", "sick"] = Field(
        description="sick: a fault of its environments, weights, numbers, texts or machine."
    )
    since: int = Field(description="Iteration of the alarm that stands, or in which the first fault began.")


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
    condition: ConditionOut | None = Field(description="Its worst trouble; null for none, or none known.")
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
    """Differences of a clone. GPU count and device class default to the source's."""

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


SettingName = Annotated[str, Field(max_length=100, pattern=r"^[a-z_.]+$")]


class SettingsRequest(StrictSchema):
    """A request to change settings while a run trains, to rewind it, or both."""

    changes: Annotated[dict[SettingName, float], Field(max_length=20)] = Field(
        default_factory=dict,
        description=f"Dotted name of a setting → its new value. Possible for {', '.join(CHANGEABLE)}.",
        examples=[{"optimizer.policy_lr": 1e-6}],
    )
    rewind_to: Annotated[int, Field(ge=0, le=1_000_000)] | None = Field(
        default=None,
        description="Iteration of a kept checkpoint to which the run goes back first; null: it goes on.",
    )
    why: Annotated[str, Field(pattern=r"^[^\x00]*$", max_length=1000)] = Field(default="", description="The reason.")


class SettingsChangeOut(Schema):
    """A change of settings while a run trains, or a rewind, as planned in its settings or requested."""

    request: str = Field(description="Its identity in the journal; “planned@ITERATION” if planned.")
    changes: dict[str, str] = Field(description="Dotted name of a setting → its new value.")
    by: str = Field(description="Who requested it; empty: planned.")
    why: str
    iteration: int | None = Field(description="The first iteration with the new values; null: the trainer is asked.")
    rewind_to: int | None = Field(description="The checkpoint to which the run goes back; null: it goes on.")
    rewind_from: int | None = Field(description="Iterations that were finished before the rewind; null before it.")
    refused: str = Field(description="Why the trainer changed nothing; empty: it did, or has not answered.")
    time: datetime = Field(description="Time of the request, then of the trainer's answer.")


class SettingsChangeList(Schema):
    items: list[SettingsChangeOut] = Field(description="The oldest first.")


class RunControl(StrictSchema):
    """A request to a run."""

    action: Literal["pause", "resume", "stop", "cancel", "undo-cancel"] = Field(
        description="“undo-cancel” is possible for ten minutes after a cancellation."
    )
