"""Response schemas of the results of runs: metrics, curves, evaluations, checkpoints, logs."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ninja import Schema
from pydantic import Field


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
    mean_reward: float | None = Field(description="null: not known, in runs of other trainers.")
    mean_turns: float | None = Field(description="Likewise.")
    mean_actions: float | None = Field(description="Likewise.")
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
