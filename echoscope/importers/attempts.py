"""Attempts read from a file of another tool, and their conversion to the events of a run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from statistics import fmean
from typing import Any

from echoscope.importers.import_notes import ImportNotes
from echoscope.importers.records import Record
from echoscope.recording.call_values import MAX_ITERATION
from echoscope.recording.conversation import Conversation
from echoscope.recording.message_images import without_embedded
from echoscope.recording.recorder import MAX_MEMBERS, Recorder
from echoscope.recording.reward_metrics import mean, reward_metrics
from echoscope.recording.splits import Split
from echoscope.recording.task_seed import task_seed

SUCCESS_FIELDS = ("success", "is_success", "correct", "is_correct", "solved", "passed", "acc", "accuracy")
REWARD_FIELDS = ("reward", "score", "total_reward")
_UNKNOWN_SPLIT = (
    "the split {name} is neither a training nor an evaluation by its name: its attempts count as {split}. Pass --split "
    "train or --split eval to decide."
)


@dataclass(frozen=True)
class Attempt:
    """One attempt at a task, as a file describes it.

    Attributes:
        group: the same for attempts at the same task within an iteration.
        reward: None if the file has none.
        success: None if the file does not state it. The reward then decides; without a reward it is unknown.
        terms: parts of the reward by name.
        unknown_split: the split that the file states, if it is neither a training nor an evaluation by its name.
        extra: all other fields, unchanged.
    """

    record: Record
    conversation: Conversation
    group: str
    iteration: int = 0
    split: Split = "train"
    suite: str = ""
    environment: str = ""
    reward: float | None = None
    success: bool | None = None
    terms: Mapping[str, float] = field(default_factory=dict)
    tokens: int = 0
    truncated: bool = False
    error: str = ""
    unknown_split: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def known_reward(self) -> float | None:
        """The reward; None also if the file has NaN or an infinity."""
        return self.reward if self.reward is not None and math.isfinite(self.reward) else None


@dataclass
class ImportSummary:
    """Result of an import.

    Attributes:
        notes: what was converted or left out, each with its first place.
    """

    trajectories: int = 0
    groups: int = 0
    iterations: int = 0
    notes: list[str] = field(default_factory=list)


SuccessAt = float | None
"""Reward from which an attempt counts as a success if its file does not say; None if its success is unknown."""


def default_success_at(attempts: Iterable[Attempt]) -> SuccessAt:
    """Return 1, or None if the rewards do not tell success: no reward is 1 or more, and some are not 0."""
    shaped = False
    for attempt in attempts:
        if attempt.success is None and attempt.known_reward is not None:
            if attempt.known_reward >= 1.0:
                return 1.0
            shaped = shaped or attempt.known_reward != 0.0
    return None if shaped else 1.0


def record_attempts(
    run: Recorder, attempts: Iterable[Attempt], success_at: SuccessAt, notes: ImportNotes
) -> ImportSummary:
    """Write the attempts of each iteration as groups, then their metrics.

    Args:
        notes: warnings of the run.
    Raises:
        ImportFailed: a file cannot be read further.
    """
    summary = ImportSummary()
    for (iteration, split, _), block in groupby(
        attempts, key=lambda attempt: (attempt.iteration, attempt.split, attempt.suite)
    ):
        groups: dict[str, list[Attempt]] = {}
        for attempt in block:
            groups.setdefault(attempt.group, []).append(attempt)
        parts = [
            members[at : at + MAX_MEMBERS] for members in groups.values() for at in range(0, len(members), MAX_MEMBERS)
        ]
        for members in parts:
            _record_group(run, members, success_at, notes)
        played = [attempt for members in parts for attempt in members]
        summary.trajectories += len(played)
        summary.groups += len(parts)
        summary.iterations = max(summary.iterations, iteration)
        if split == "train":
            run.log(_metrics(played, success_at), iteration=iteration)
        else:
            _record_evaluation(run, played, success_at)
    return summary


def _record_group(run: Recorder, members: list[Attempt], success_at: SuccessAt, notes: ImportNotes) -> None:
    first = members[0]
    notes.where = first.record.where
    trajectories = run.group(
        len(members),
        prompt=first.conversation.prompt,
        iteration=first.iteration,
        environment=first.environment,
        split=first.split,
        suite=first.suite,
        seed=task_seed(first.environment, first.conversation.opening),
        source=first.record.where,
    )
    for attempt, trajectory in zip(members, trajectories, strict=True):
        notes.where = attempt.record.where
        if attempt.unknown_split:
            name = f"{attempt.unknown_split!r:.100}"
            notes.once(f"split {name}", _UNKNOWN_SPLIT.format(name=name, split=attempt.split))
        turns = attempt.conversation.turns
        for number, turn in enumerate(turns):
            last = number == len(turns) - 1
            trajectory.turn(
                state=turn.state,
                images=turn.images,
                response=turn.response,
                thought=turn.thought,
                answer=turn.answer,
                actions=turn.actions,
                reward=attempt.reward if last else None,
                terms=attempt.terms if last and attempt.terms else None,
                tokens=attempt.tokens if last else 0,
                truncated=attempt.truncated and last,
                **turn.extra,
            )
        extra: dict[str, Any] = {"record": without_embedded(attempt.extra)} if attempt.extra else {}
        if attempt.conversation.rest:
            extra["after"] = attempt.conversation.rest
        cut = attempt.truncated or bool(attempt.error) or not turns
        trajectory.finish(
            success=succeeded(attempt, success_at),
            end="truncated" if cut else "terminated",
            total_reward=attempt.known_reward,
            error=attempt.error or (None if turns else "the file holds no response of the policy"),
            **extra,
        )


def _record_evaluation(run: Recorder, played: list[Attempt], success_at: SuccessAt) -> None:
    """Record the result of an evaluation over the attempts with known success; nothing if there are none."""
    known = [(attempt, success) for attempt in played if (success := succeeded(attempt, success_at)) is not None]
    if not known:
        return
    first = played[0]
    rewards = [attempt.known_reward for attempt, _ in known if attempt.known_reward is not None]
    run.evaluation(
        first.suite or first.environment or "Evaluation",
        iteration=first.iteration,
        prompts=len({attempt.group for attempt, _ in known}),
        trajectories=len(known),
        successes=sum(success for _, success in known),
        mean_reward=mean(rewards),
        mean_turns=fmean(len(attempt.conversation.turns) for attempt, _ in known),
    )


def _metrics(played: list[Attempt], success_at: SuccessAt) -> dict[str, float]:
    """Return means over the file's values, without values that it lacks."""
    rewards = [(attempt.group, attempt.known_reward) for attempt in played if attempt.known_reward is not None]
    metrics = reward_metrics(rewards)
    known = [success for attempt in played if (success := succeeded(attempt, success_at)) is not None]
    if known:
        metrics["success/rate"] = fmean(known)
    return metrics


def succeeded(attempt: Attempt, success_at: SuccessAt) -> bool | None:
    """Return success as the file states it, else by the reward; None if unknown."""
    if attempt.success is not None or attempt.known_reward is None or success_at is None:
        return attempt.success
    return attempt.known_reward >= success_at


def read_number(record: Record, name: str, value: Any) -> float | None:
    """Return a field as a number; None if it is missing. Raises ImportFailed."""
    if value is None or value == "":
        return None
    if isinstance(value, list | tuple) and value:  # a reward per token or per turn
        value = sum(value) if all(isinstance(part, int | float) for part in value) else None
    try:
        return float(value)
    except (TypeError, ValueError):
        raise record.fail(f"the field {name} is {value!r:.100}, not a number", "Correct it, or leave it out.") from None


def read_reward(record: Record) -> float | None:
    """Return the first of the fields with a reward. Raises ImportFailed."""
    name = next((name for name in REWARD_FIELDS if record.fields.get(name) is not None), "")
    return read_number(record, name, record.fields[name]) if name else None


def stated_success(fields: Mapping[str, Any]) -> bool | None:
    """Return the first of the fields that say whether it succeeded; None if there is none."""
    for name in SUCCESS_FIELDS:
        value = fields.get(name)
        if isinstance(value, str) and value.strip().lower() in ("true", "false"):
            return value.strip().lower() == "true"
        if isinstance(value, bool | int | float) and value in (0, 1):
            return bool(value)
    return None


def read_iteration(record: Record, *names: str, default: int = 0) -> int:
    """Return the first of the fields as the number of an iteration. Raises ImportFailed."""
    for name in names:
        value = read_number(record, name, record.fields.get(name))
        if value is None:
            continue
        if not value.is_integer() or not 0 <= value <= MAX_ITERATION:
            raise record.fail(f"the field {name} is {value:g}, not the number of an iteration from 0 on")
        return int(value)
    return default
