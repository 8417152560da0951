"""Request and response schemas of studies."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from ninja import Path, Schema
from pydantic import Field, StrictBool

from trainer.config.run import RunConfig
from webapp.api.schemas.shared_schemas import Gpus, Priority, Queue, Slug, State, StrictSchema, TeamOut, Text
from webapp.studies.study_spec import DEFAULT_METRIC, Axis, EarlyStopping, SearchRange

StudySlug = Annotated[Slug, Path(description="The study's public id, as in its address.")]
StudyState = Literal["running", "paused", "cancelled", "finished"]
StudyKind = Literal["catalogue", "grid", "random", "bayesian"]
StudyVisibility = Literal["team", "link"]
ExportFormat = Annotated[Literal["markdown", "svg", "csv"], Path(description="The page, its charts, or its runs.")]


class StudyRunOut(Schema):
    """A run of a study. What a reader may not open has no slug."""

    slug: str | None
    seed: int
    state: State
    iteration: int
    iterations: int
    success: float | None = Field(description="Of its last evaluation on its own environment, 0 to 1.")


class StudyArmOut(Schema):
    """An arm of a study in one environment; a trial of a search."""

    name: str
    title: str
    environment: str
    changes: dict[str, Any] = Field(description="Dotted setting → value, where the arms of a grid or a search differ.")
    success: float | None = Field(description="Mean over runs of their last evaluation, 0 to 1.")
    deviation: float | None = Field(description="Its standard deviation over runs; null for fewer than two.")
    value: float | None = Field(description="Mean over runs of the study's metric at their present ends.")
    complete: int = Field(description="Runs that ended as planned.")
    stopped: str = Field(description="Why it was stopped early; empty if it was not.")
    runs: list[StudyRunOut]


class StudyVerdictOut(Schema):
    """Verdict on a claim of a study, from its complete runs."""

    claim: str
    environment: str
    verdict: str = Field(description="yes, no, the opposite, or inconclusive.")
    firm: bool = Field(description="Whether all planned seeds are complete; until then the verdict is provisional.")
    figures: str
    p: float | None = Field(description="Two-sided p value; null where nothing could be tested.")
    corrected: float | None = Field(description="After Holm's correction for all tested claims of the study.")
    complete: int = Field(description="Complete seeds of the arm that has fewer of them.")
    planned: int


class ReportedOut(Schema):
    """A figure of the paper."""

    what: str
    value: str
    environment: str
    arm: str


class StudyOut(Schema):
    """A study, without its results."""

    slug: str
    url: str
    title: str = Field(description="Also the group of its runs.")
    team: TeamOut | None = Field(description="Null outside the team.")
    author: str | None
    kind: StudyKind
    state: StudyState
    visibility: StudyVisibility
    runs: dict[str, int] = Field(description="State → number of runs.")
    problem: str = Field(description="Why it launches no further trials, and what to do; empty if all is well.")
    created_at: datetime
    ended_at: datetime | None


class StudyDetail(StudyOut):
    """A study with its plan and its results so far."""

    plan: dict[str, Any] = Field(
        description="What it tries, as at its launch; without shared settings for readers outside of the team."
    )
    metric: str = Field(description="Metric by which trials are chosen and arms are stopped early.")
    arms: list[StudyArmOut]
    verdicts: list[StudyVerdictOut]
    paper: list[ReportedOut]


class StudyPage(Schema):
    """A page of a list of studies."""

    items: list[StudyOut]
    next_cursor: str | None = Field(description="`cursor` of the next page; null on the last one.")


class NewStudy(StrictSchema):
    """A study to launch: of the paper's catalogue (`study`), a grid (`axes`) or a search (`space`)."""

    kind: StudyKind
    title: str = Field(default="", pattern=r"^[^\x00]*$", max_length=80)
    team: Slug | None = Field(default=None, description="Required only with a session whose user is in several teams.")
    visibility: StudyVisibility = "team"
    seeds: int | None = Field(default=None, description="Of each arm; default: the study's own, 3 or 1 (search).")
    study: Text = Field(default="", description="catalogue: its name, as in figure-9.")
    scale: Literal["smoke", "pocket", "paper"] = Field(default="pocket", description="catalogue: its scale.")
    config: RunConfig | None = Field(default=None, description="Otherwise: what all arms have in common.")
    preset: Text | None = Field(default=None, description="Instead of `config`: name of a shipped preset.")
    overrides: dict[str, Any] = Field(default_factory=dict, description="Dotted setting → its value, in all runs.")
    axes: list[Axis] = Field(default_factory=list, description="grid: settings with the values to combine.")
    space: list[SearchRange] = Field(default_factory=list, description="random, bayesian: settings with their ranges.")
    trials: int = Field(default=20, description="random, bayesian: number of trials.")
    parallel: int = Field(default=4, description="random, bayesian: trials in the queue at a time.")
    metric: Text = DEFAULT_METRIC
    early_stopping: EarlyStopping | None = Field(default=None, description="Successive halving (ASHA); not catalogue.")
    queue: Queue | None = None
    gpus: Gpus | None = None
    priority: Priority = Field(default="normal", description="“high” is reserved for admins of the team.")


class StudyPatch(StrictSchema):
    """A change of a study's visibility."""

    visibility: StudyVisibility
    with_runs: StrictBool = Field(default=False, description="Its runs as well, without private ones.")


class StudyControl(StrictSchema):
    """A request to all runs of a study."""

    action: Literal["pause", "resume", "cancel", "undo-cancel"]


class StudyControlled(Schema):
    """Effects of a request."""

    changed: int = Field(description="Runs that follow it.")
    refusals: list[str] = Field(description="Reasons of runs that do not.")
    study: StudyOut
