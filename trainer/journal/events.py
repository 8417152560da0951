"""Events of the journal: one JSON line each, line number = seq (docs/journal.md)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator

from envs.base import Board, CallRecord, Claim, Hint, ToolSpec
from trainer.journal import token_arrays
from trainer.journal.observation_images import ObservationImage
from trainer.journal.token_arrays import Unlearned


class Event(BaseModel):
    """Common to all events. `seq` counts lines from 1; `time` is seconds since the epoch.

    Fields that this version does not know become part of `extra`.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, JsonValue]

    seq: int = 0
    time: float = 0.0
    extra: dict[str, JsonValue] | None = Field(
        default=None, description="Anything that a recorder adds: tool calls, scores of a judge, latency."
    )

    def model_post_init(self, context: Any, /) -> None:
        if unknown := self.__pydantic_extra__:
            self.extra = {**unknown, **(self.extra or {})}
            unknown.clear()


class RunStarted(Event):
    """A process starts or continues the run. A later attempt supersedes everything after `from_iteration`."""

    type: Literal["run_started"] = "run_started"
    attempt: int = Field(ge=1)
    from_iteration: int = Field(
        description="Iterations finished in the checkpoint it continues from. A warm-up of n steps on demonstrations "
        "begins at −n; its last step ends at 0. All iterations of the journal are counted like this."
    )
    evaluated_iteration: int = Field(
        default=-1, description="Iteration of the last complete evaluation; later or unfinished ones are superseded."
    )
    evaluated_suites: list[str] = Field(
        default_factory=list, description="Suites completed after that; their results remain valid."
    )
    iterations: int
    title: str
    config: dict[str, Any]
    device: str = Field(description='Display text: "CPU, 2 threads"; empty if unknown.')
    parameters: int = Field(description="Parameters of the policy; 0 = unknown.")
    versions: dict[str, str]


class UpdateProgress(BaseModel):
    """Part of an update that is being computed."""

    model_config = ConfigDict(extra="forbid")

    stage: Literal["prepare", "reference", "old", "values", "diagnostics", "step"] = Field(
        description="prepare: metrics of the rollout; reference, old: log-probabilities under the initial policy, "
        "under the policy before the update; values: of the critic; diagnostics: gradients of single loss terms; "
        "step: optimiser steps."
    )
    pass_number: int = Field(default=0, ge=0, description="Pass over the rollout, from 1; 0 before the first.")
    passes: int = Field(default=0, ge=0, description="Planned passes.")
    groups: list[int] = Field(default_factory=list, description="Groups with rows in the current micro-batch.")


class Phase(Event):
    """Current phase and its progress; emitted at every change and at most once a second in between."""

    type: Literal["phase"] = "phase"
    phase: Literal["load", "warmup", "evaluate", "rollout", "update", "checkpoint"]
    iteration: int = Field(ge=0, description="1-based; 0 before the first.")
    done: int = 0
    total: int = 0
    unit: str = ""
    tokens_per_second: float | None = None
    eta_seconds: float | None = Field(default=None, description="To the end of the run, once it can be estimated.")
    eta_low_seconds: float | None = Field(default=None, description="The same at the pace of fast iterations.")
    eta_high_seconds: float | None = Field(default=None, description="The same at the pace of slow iterations.")
    share: float | None = Field(default=None, ge=0, le=1, description="Completed share of the phase's work.")
    iteration_shares: dict[str, float] | None = Field(
        default=None, description="Phase → its expected share of this iteration's time, in order, once it was measured."
    )
    update: UpdateProgress | None = Field(default=None, description="For phase update.")


class GroupStarted(Event):
    """Initial state of the `len(members)` trajectories of a group."""

    type: Literal["group_started"] = "group_started"
    iteration: int
    split: Literal["train", "eval"]
    suite: str | None = Field(default=None, description="Evaluation suite, for split eval.")
    group: int = Field(description="0-based within the iteration and split.")
    environment: str
    seed: int
    prompt: str = Field(description="The task, as read before the first state.")
    board: Board
    hint: Hint | None = None
    members: list[str] = Field(description="Ids of the trajectories, unique within the run.")
    tools: list[ToolSpec] | None = Field(
        default=None, description="Tools that the policy calls in its family's own format, or in that of an API."
    )


class ActionRecord(BaseModel):
    """One action of an answer and its effect."""

    model_config = ConfigDict(extra="forbid")

    text: str = Field(description="As the policy wrote it.")
    status: Literal["executed", "ignored", "illegal"] = Field(
        description="illegal: no such action; ignored: beyond a budget or after the end."
    )
    name: str | None = Field(default=None, description="The environment's name of it, unless illegal.")
    reward: float = 0.0
    effective: bool = False
    actual: str | None = Field(default=None, description="What the dynamics did instead (a slip).")
    board: Board | None = Field(default=None, description="After the action, if executed.")
    hint: Hint | None = Field(default=None, description="After the action, if executed and there is a solver.")
    call: CallRecord | None = Field(default=None, description="The call of a tool that the action was, and its result.")


class Turn(Event):
    """One dialogue turn: state, thought, answer and its effect."""

    type: Literal["turn"] = "turn"
    trajectory: str
    turn: int = Field(ge=0, description="0-based.")
    state: str = Field(description="The message the policy read this turn.")
    frame: tuple[str, str] | None = Field(
        default=None,
        description="Text of the chat template before and after `state` (at the first turn: before the task, after the "
        "state), with system message and forced tag. null: the same as at the turn before, or not recorded.",
    )
    images: list[ObservationImage] | None = Field(
        default=None, description="What it saw besides the message, in order."
    )
    response: str = Field(description="The sampled tokens, decoded.")
    thought: str
    answer: str
    format_valid: bool | None = Field(
        default=None, description="null: no format was judged, in runs of other trainers."
    )
    problem: str | None = Field(default=None, description="Why the format is not valid, in words.")
    actions: list[ActionRecord]
    reward: float = Field(description="Sum of `terms`.")
    terms: dict[str, float] = Field(
        description='Named reward terms: "environment", "format", …; empty: none was recorded.'
    )
    tokens: int | None = Field(default=None, description="Sampled tokens. null: not known, in runs of other trainers.")
    truncated: bool = Field(description="Cut at rollout.max_response_tokens.")
    entropy: float | None = Field(default=None, description="Mean entropy of the sampled tokens, nats, where known.")
    logprob: float | None = Field(default=None, description="Their mean log-probability, nats, where known.")
    board: Board | None = Field(default=None, description="Before the first action of the turn.")
    hint: Hint | None = Field(default=None, description="Before the first action of the turn, where there is a solver.")
    claims: list[Claim] | None = Field(
        default=None, description="Statements of the thought compared with `board`, where the environment compares any."
    )


class LostAt(BaseModel):
    """The first action after which, according to the solver, success is impossible."""

    turn: int
    action: int
    reason: str


class TrajectoryFinished(Event):
    """A trajectory ended."""

    type: Literal["trajectory_finished"] = "trajectory_finished"
    trajectory: str
    success: bool | None = Field(default=None, description="null: not known, in runs of other trainers.")
    end: Literal["terminated", "turns", "actions", "truncated", "interrupted"] = Field(
        description="terminated by the environment, out of turns or actions, context full or error, run stopped"
    )
    total_reward: float | None = Field(
        default=None,
        description="R(τ): sum over turns of all terms. null: none was recorded, in runs of other trainers.",
    )
    turns: int
    actions: int = Field(description="Executed actions.")
    tokens: int | None = Field(default=None, description="null: not known, in runs of other trainers.")
    lost_at: LostAt | None = None
    error: str | None = None


class TrajectoryTokens(Event):
    """Tokens of a finished trajectory with values from sampler and update, packed by token_arrays.py."""

    type: Literal["trajectory_tokens"] = "trajectory_tokens"
    trajectory: str
    tokens: int = Field(ge=1, description="Sampled tokens of all its turns.")
    unlearned: Unlearned | None = Field(
        default=None,
        description="Why there are no advantages: evaluation; dropped by the filter; broken: the environment failed; "
        "no_update: no group had a signal.",
    )
    mismatch: float | None = Field(
        default=None,
        ge=0,
        description="Mean absolute difference of the trainer's and the sampler's log-probabilities, nats.",
    )
    k3: float | None = Field(
        default=None, ge=0, description="Mean k3 estimate of the divergence of sampler and trainer, nats a token."
    )
    wrong: bool | None = Field(
        default=None,
        description="Whether the loss contains a token that was not sampled, or a prompt begins with the same token "
        "twice; from other trainers.",
    )
    retokenised: int | None = Field(
        default=None,
        ge=0,
        description="Sampled tokens at whose place the response's text has another token when it is encoded again.",
    )
    data: str = Field(
        description="Ids, lengths of the pieces, log-probabilities, entropies, advantages, and what was read; packed."
    )

    @field_validator("data")
    @classmethod
    def base64_text(cls, value: str) -> str:
        token_arrays.compressed(value)
        return value


class GroupScore(BaseModel):
    """Reward statistics of one group, from raw rewards."""

    group: int
    mean: float
    std: float
    kept: bool = Field(description="Whether the filter kept it for the update.")


class GroupsScored(Event):
    """Scores of the groups of an iteration, and which of them the filter kept."""

    type: Literal["groups_scored"] = "groups_scored"
    iteration: int
    groups: list[GroupScore]


class GroupsReplaced(Event):
    """Another round of dynamic sampling begins: groups without a signal are replaced by new ones."""

    type: Literal["groups_replaced"] = "groups_replaced"
    iteration: int
    round_number: int = Field(ge=2, description="Round that begins, from 1.")
    rounds: int = Field(ge=2, description="Maximum number of rounds (algorithm.dynamic_sampling_rounds).")
    replaced: list[int] = Field(description="Groups of the last round whose rewards are all equal.")
    informative: int = Field(ge=0, description="Groups of the iteration so far whose rewards differ.")


SkipReason = Literal["filter", "no_signal"]


class UpdateSkipped(Event):
    """An iteration without an update: no optimiser step, no change of weights, optimiser state or learning rate."""

    type: Literal["update_skipped"] = "update_skipped"
    iteration: int
    reason: SkipReason = Field(
        description="filter: no group was kept; no_signal: the rewards of no kept group differ, and the estimator "
        "compares within groups."
    )
    consecutive: int = Field(ge=1, description="Iterations without an update in a row, this one included.")


UnusedReason = Literal[
    "equal_rewards",
    "resampled",
    "filtered",
    "zero_advantage",
    "clipped",
    "environment_error",
    "timeout",
    "empty",
    "critic_warmup",
    "stale",
    "too_long",
    "other",
]


class AttemptsUsed(Event):
    """What an iteration's update learnt from: how many attempts, and why the others taught nothing."""

    type: Literal["attempts_used"] = "attempts_used"
    iteration: int
    trained: int = Field(ge=0, description="Attempts that the update learnt from.")
    unused: dict[UnusedReason, list[str]] = Field(
        description="Ids of the trajectories that taught nothing, by reason; the update learnt from all others."
    )

    @property
    def counts(self) -> dict[str, int]:
        """Number of attempts by training use; they add up to the iteration's attempts."""
        return {"trained": self.trained, **{reason: len(ids) for reason, ids in self.unused.items() if ids}}


class Metrics(Event):
    """Values of one iteration by metric name (see trainer/metrics/table.py), all finite."""

    type: Literal["metrics"] = "metrics"
    iteration: int
    tokens: int | None = Field(
        default=None, description="Tokens sampled for training so far. null: not known, in runs of other trainers."
    )
    seconds: float = Field(description="Seconds of work so far, in all attempts.")
    values: dict[str, float]


class Evaluation(Event):
    """Result of an evaluation suite. Iteration 0 = before training; below 0: before or within the warm-up."""

    type: Literal["evaluation"] = "evaluation"
    iteration: int
    suite: str
    prompts: int
    samples: int = Field(default=1, description="Trajectories from each prompt.")
    success: float
    success_low: float = Field(description="95% Wilson interval.")
    success_high: float
    pass_at: dict[int, float] = Field(default_factory=dict, description="k → pass@k, where samples allow it.")
    mean_reward: float | None = Field(default=None, description="null: not known, in runs of other trainers.")
    mean_turns: float | None = Field(default=None, description="Likewise.")
    mean_actions: float | None = Field(default=None, description="Likewise.")
    mean_response: float | None = Field(default=None, description="Sampled tokens per turn.")
    final: bool = False


class EvaluatedPolicy(BaseModel):
    """A row of the generalisation matrix."""

    model_config = ConfigDict(extra="forbid")

    name: str
    source: str = Field(description="Folder, hub id or pocket.")
    trained_on: str | None = Field(default=None, description="Environment it was trained in, if known.")


class GeneralizationCell(BaseModel):
    """Result of one policy in one suite."""

    model_config = ConfigDict(extra="forbid")

    policy: str
    suite: str
    prompts: int
    samples: int = 1
    success: float
    success_low: float = Field(description="95% Wilson interval.")
    success_high: float
    pass_at: dict[int, float] = Field(default_factory=dict, description="k → pass@k, where samples allow it.")
    mean_reward: float


class Generalization(Event):
    """The complete generalisation matrix: every policy in every suite."""

    type: Literal["generalization"] = "generalization"
    policies: list[EvaluatedPolicy]
    suites: list[str]
    cells: list[GeneralizationCell] = Field(description="One for each policy and suite.")


class CheckpointSaved(Event):
    """A checkpoint is complete on disk."""

    type: Literal["checkpoint"] = "checkpoint"
    iteration: int
    path: str = Field(description="Relative to the run's folder.")
    bytes: int


class CheckpointRemoved(Event):
    """An older checkpoint was deleted to save disk space."""

    type: Literal["checkpoint_removed"] = "checkpoint_removed"
    iteration: int


class Alarm(Event):
    """The Echo Trap detector changed its state."""

    type: Literal["alarm"] = "alarm"
    iteration: int
    state: Literal["healthy", "watch", "trapped"]
    message: str = Field(description="The evidence in words.")
    evidence: dict[str, float] = Field(default_factory=dict)


class Fault(BaseModel):
    """A fault of the run: of its environments, weights, numbers, texts or machine."""

    model_config = ConfigDict(extra="forbid")

    cause: str = Field(max_length=40, description="A key of CAUSES in trainer/metrics/fault_causes.py.")
    since: int = Field(description="Iteration in which it was first seen.")
    text: str = Field(description="The evidence in a sentence.")


class Faults(Event):
    """The causes for which the run is sick have changed: all that are present now."""

    type: Literal["faults"] = "faults"
    iteration: int
    present: list[Fault] = Field(max_length=50, description="In the order in which they began; empty: none any more.")


class TimelineSpan(BaseModel):
    """Work on a track."""

    model_config = ConfigDict(extra="forbid")

    start: float = Field(ge=0, description="Beginning in seconds since the beginning of the part.")
    seconds: float = Field(ge=0)
    work: dict[str, float] = Field(
        max_length=30, description="Kind of work (KINDS in trainer/metrics/timeline.py) → seconds; the rest is idle."
    )


class IterationTimeline(Event):
    """What the processes of a run did when: from the beginning of an iteration, or of an attempt, to its end."""

    type: Literal["timeline"] = "timeline"
    iteration: int = Field(description="The iteration; of a start, the iterations that were finished before.")
    part: Literal["start", "iteration"] = Field(description="start: loading and what came before the first iteration.")
    began: float = Field(description="Beginning, in seconds since the epoch.")
    seconds: float = Field(ge=0, description="Length.")
    tracks: dict[str, list[TimelineSpan]] = Field(
        max_length=1000,
        description="Spans by beginning: of trainer, player (sampling and environments in the trainer's process), "
        "learner, processor, and of actors and GPUs by name.",
    )


class Rewound(Event):
    """The run returned to an earlier checkpoint, after a collapse, or by the settings_changed before this event.

    The next run_started supersedes what came after that checkpoint.
    """

    type: Literal["rewound"] = "rewound"
    number: int = Field(ge=1, description="Number of the rewind, from 1.")
    from_iteration: int = Field(ge=0, description="Iterations finished before the rewind.")
    to_iteration: int = Field(ge=0, description="Iterations finished in the checkpoint it continues from.")
    changes: dict[str, str] = Field(
        default_factory=dict, description="Settings that differ from the original ones, with their new values."
    )


class SettingsChanged(Event):
    """Settings of the run change from an iteration on, or it rewinds, as planned or requested.

    The next run_started begins the iteration.
    """

    type: Literal["settings_changed"] = "settings_changed"
    iteration: int = Field(ge=1, description="The first iteration with the new values.")
    changes: dict[str, str] = Field(max_length=20, description="New values by dotted name of the setting.")
    request: str = Field(
        default="", max_length=64, description="Identity of the request; empty: planned in the settings."
    )
    by: str = Field(default="", max_length=150, description="Who requested it.")
    why: str = Field(default="", max_length=1000, description="Reason that the person gave.")
    rewind_from: int | None = Field(default=None, ge=0, description="Iterations finished before the run rewinds.")
    rewind_to: int | None = Field(
        default=None, ge=0, description="Iterations finished in the checkpoint to which the run rewinds."
    )
    rewinds: int = Field(
        default=0, ge=0, description="Rewinds of the run before the iteration, this one too: @40/1 in its settings."
    )
    refused: str = Field(default="", max_length=1000, description="Why nothing was changed; empty: it was.")


class Notice(Event):
    """A message for the user."""

    type: Literal["notice"] = "notice"
    level: Literal["info", "warning", "error"]
    message: str


class RunFinished(Event):
    """Orderly end of the process. `interrupted` = stopped on request; it can be resumed from its checkpoint."""

    type: Literal["run_finished"] = "run_finished"
    reason: Literal["completed", "interrupted", "echo_trap", "no_signal", "budget", "error"]
    iteration: int = Field(description="Iterations finished.")
    message: str
    summary: dict[str, float] = Field(default_factory=dict)


AnyEvent = Annotated[
    RunStarted
    | Phase
    | GroupStarted
    | Turn
    | TrajectoryFinished
    | TrajectoryTokens
    | GroupsReplaced
    | GroupsScored
    | UpdateSkipped
    | AttemptsUsed
    | Metrics
    | Evaluation
    | Generalization
    | CheckpointSaved
    | CheckpointRemoved
    | Alarm
    | Faults
    | IterationTimeline
    | Rewound
    | SettingsChanged
    | Notice
    | RunFinished,
    Field(discriminator="type"),
]
