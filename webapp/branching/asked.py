"""What may be asked about an attempt: the form of a question, and why an attempt takes none."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from envs import registry
from trainer.journal.branches import (
    MAX_SAMPLES,
    Change,
    CompareThoughts,
    FindValue,
    PlayOn,
    Question,
)
from webapp.branching.lineage import SUPERSEDED, lineage, lineage_problem, recorded_attempt
from webapp.branching.models import BranchQuestion
from webapp.branching.policies import policy_problem
from webapp.runs.models import Run
from webapp.trajectories.models import Trajectory
from webapp.trajectories.token_computation import sampled_after

Kind = BranchQuestion.Kind
MAX_CONTINUATIONS = 2000
"""Continuations of one question: samples times turns, for value by play and thoughts."""
NEWEST = 2**31 - 1
"""Finished iterations of the wanted weights of another run: its newest checkpoint, which is the nearest to this."""
MAX_CHANGE = 20_000
"""Characters of a changed text."""


class Asked(BaseModel):
    """A question as it is asked. Turns are counted from 0.

    Attributes:
        turn: of play on: the position is before the response of this turn.
        temperature: None: as the attempt was sampled; 0 is greedy.
        change: what is changed at the turn.
        fresh_luck: whether the environment's later randomness is new in every branch.
        checkpoint: finished iterations of the wanted weights; None: the weights that played the attempt, or the newest
            ones of another run.
    """

    model_config = ConfigDict(extra="forbid")

    kind: Kind = Kind.BRANCH
    turn: int | None = Field(None, ge=0, lt=2**16)
    samples: int = Field(8, ge=1, le=MAX_SAMPLES)
    temperature: float | None = Field(None, ge=0, le=10, allow_inf_nan=False)
    change: Change = Change()
    fresh_luck: bool = False
    checkpoint: int | None = Field(None, ge=0, lt=2**31)


class AskedWrongly(ValueError):
    """A question has an impossible value. The message is for users.

    Attributes:
        field: name of the value.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def problem_with(asked: Asked, trajectory: Trajectory) -> AskedWrongly | None:
    """Return what is wrong with a question about an attempt; None if nothing is."""
    changes = asked.change.model_dump(exclude_none=True)
    if asked.kind == Kind.BRANCH:
        if asked.turn is None or asked.turn >= trajectory.turn_count:
            return AskedWrongly("turn", f"The attempt has {trajectory.turn_count} turns: choose one of them.")
    elif asked.turn is not None or changes or asked.fresh_luck:
        return AskedWrongly("turn", "Changes apply to one position: choose play on, and a turn.")
    if len(changes) > 1:
        return AskedWrongly("change", "Change one of state, thought and answer.")
    if any(len(text) > MAX_CHANGE for text in changes.values()):
        return AskedWrongly("change", f"A changed text has at most {MAX_CHANGE:,} characters.")
    if changes.get("answer") == "" or changes.get("state") == "":
        return AskedWrongly("change", "The changed text is empty.")
    if continuations(asked, trajectory) > MAX_CONTINUATIONS:
        most = max(1, MAX_CONTINUATIONS // trajectory.turn_count)
        return AskedWrongly("samples", f"This attempt has {trajectory.turn_count} turns: take at most {most} samples.")
    return None


def continuations(asked: Asked, trajectory: Trajectory) -> int:
    """Return the number of continuations that a question is about to play."""
    return asked.samples * (1 if asked.kind == Kind.BRANCH else trajectory.turn_count)


def refusal(trajectory: Trajectory) -> str:
    """Return why no policy can play on from an attempt, as a sentence; empty if one can. Queries only for branches."""
    run = trajectory.run
    if problem := policy_problem(run):
        return f"No policy can play on from here: {problem}."
    if trajectory.superseded:
        return SUPERSEDED
    if trajectory.finished_seq is None:
        return "A policy can play on from here when the attempt has ended."
    if (questions := lineage(trajectory)) and (problem := lineage_problem(questions)):
        return problem
    if not trajectory.turn_count:
        return "No policy can play on from here: the attempt has no turn."
    if problem := replay_problem(run, trajectory.group.environment):
        return f"{trajectory.group.environment} cannot be played again: {problem}."
    return ""


def replay_problem(run: Run, environment: str) -> str:
    """Return why the environment must not be played again; a mixed one is judged by its default settings."""
    chosen: dict[str, Any] = run.config.get("environment") or {}
    settings = chosen.get("settings") if chosen.get("name") == environment else None
    try:
        return registry.replay_problem(environment, settings)
    except (ValueError, TypeError):
        return "this site does not know the environment or its settings"


def as_sent(question: BranchQuestion, folder: str) -> Question:
    """Return the question as a sampler process reads it. Raises ValidationError if it became invalid.

    Args:
        folder: folder with the journal of the attempt, in which a branch is the end of its recorded attempt.
    """
    about: dict[str, Any] = {
        "id": question.slug,
        "folder": folder,
        "trajectory": recorded_attempt(question.trajectory).key,
        "temperature": question.temperature,
        "samples": question.samples,
    }
    if question.kind == Kind.BRANCH:
        return PlayOn(**about, turn=question.turn or 0, change=question.changed, luck=_luck(question))
    return FindValue(**about) if question.kind == Kind.VALUE else CompareThoughts(**about)


def wanted_weights(question: BranchQuestion) -> int:
    """Return the finished iterations of the weights that should answer: the nearest kept ones do."""
    if question.checkpoint is not None:
        return question.checkpoint
    return sampled_after(question.trajectory) if question.weights_run_id is None else NEWEST


def first_problem(error: ValidationError) -> AskedWrongly:
    """Return the first problem of values that do not form a question."""
    first = error.errors()[0]
    field = str(first["loc"][0]) if first["loc"] else "question"
    return AskedWrongly(field, f"{field}: {first['msg']}.")


def _luck(question: BranchQuestion) -> Any:
    return "fresh" if question.luck == "fresh" else "recorded"
