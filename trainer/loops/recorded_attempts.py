"""Recorded attempts of a run folder, and the weights with which they can be computed or played again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from trainer.config.removed import stored_config
from trainer.config.run import RunConfig
from trainer.evaluation.suites import get_suites
from trainer.journal import token_arrays
from trainer.journal.attempt_lines import lines_about
from trainer.journal.computed_tokens import nearest_checkpoint, weights_of
from trainer.journal.events import (
    AttemptsUsed,
    GroupsScored,
    GroupStarted,
    RunStarted,
    TrajectoryFinished,
    TrajectoryTokens,
    Turn,
    UpdateSkipped,
)
from trainer.journal.protocol import JOURNAL_FILE, is_model_file
from trainer.journal.reader import parse_line
from trainer.journal.token_arrays import TokenArrays
from trainer.loops.stages import checkpoints
from trainer.loops.stages.initial_policies import initial_policy
from trainer.rollout.environment_mix import get_shares
from trainer.rollout.rebuilding import CONTEXT_FULL

_START, _GROUP, _TURN = b'"type":"run_started"', b'"type":"group_started"', b'"type":"turn"'
_TRAJECTORY = re.compile(rb'"trajectory":"([^"\\]*)"')


class RecordingError(ValueError):
    """An attempt or its weights are not there. The message gives the reason."""


@dataclass
class RecordedAttempt:
    """The journal's events of an attempt, in the latest attempt of the run that played it.

    Attributes:
        config: settings of the run when it was played.
        finished: its end; None while it is being played, or if the run was killed.
        tokens: its recorded tokens; None if there are none.
    """

    trajectory: str
    config: RunConfig
    group: GroupStarted
    turns: list[Turn] = field(default_factory=list)
    finished: TrajectoryFinished | None = None
    tokens: TokenArrays | None = None
    _updated: bool = False

    @property
    def failed(self) -> bool:
        error = self.finished.error if self.finished else None
        return error is not None and CONTEXT_FULL not in error

    @property
    def in_loss(self) -> bool:
        """Whether the loss of an update contained its sampled tokens."""
        return self.group.split == "train" and self._updated and not self.failed

    @property
    def sampled_after(self) -> int:
        """Finished iterations of the weights that sampled it."""
        return weights_of(self.group.split, self.group.iteration)

    @property
    def environment_config(self) -> RunConfig:
        """The settings as if its environment were the only one of the run."""
        if self.group.split == "train":
            choices = {share.name: share.config for share in get_shares(self.config)}
            return choices.get(self.group.environment, self.config)
        return {suite.name: suite.config for suite in get_suites(self.config)}.get(self.group.suite or "", self.config)

    @property
    def temperature(self) -> float:
        """Temperature at which it was sampled; 0 is greedy."""
        if self.group.split == "train":
            return self.config.rollout.temperature
        return self.environment_config.evaluation.temperature

    def take(self, event: object) -> None:
        """Take in an event after the start of the group."""
        group = self.group
        match event:
            case Turn() if event.trajectory == self.trajectory:
                self.turns.append(event)
            case TrajectoryFinished() if event.trajectory == self.trajectory:
                self.finished = event
            case TrajectoryTokens() if event.trajectory == self.trajectory:
                self.tokens = token_arrays.unpack(event.data)
            case GroupsScored() if event.iteration == group.iteration:
                self._updated = any(score.kept for score in event.groups if score.group == group.group)
            case UpdateSkipped() if event.iteration == group.iteration:
                self._updated = False
            case AttemptsUsed() if event.iteration == group.iteration:
                self._updated &= "critic_warmup" not in event.unused


def find_attempt(folder: Path, trajectory: str) -> RecordedAttempt:
    """Read an attempt's events.

    Raises:
        RecordingError: the folder has no such attempt, or another trainer recorded it.
        JournalError: the journal is broken.
    """
    is_wanted = lines_about(trajectory)
    config: RunConfig | None = None
    attempt: RecordedAttempt | None = None
    for number, line in journal_lines(folder):
        if not is_wanted(line):
            continue
        event = parse_line(line, number)
        if isinstance(event, RunStarted):
            config = own_settings(event)
        elif isinstance(event, GroupStarted) and trajectory in event.members and config is not None:
            attempt = RecordedAttempt(trajectory, config, event)
        elif attempt is not None:
            attempt.take(event)
    if attempt is None:
        raise RecordingError(f"the journal holds no attempt {trajectory!r}; ids are like 00001-g00-n00")
    if not attempt.turns:
        raise RecordingError("this attempt has no turn")
    return attempt


def turns_beside(folder: Path, attempt: RecordedAttempt) -> Iterator[Turn]:
    """Yield the turns that other attempts took in the same environment and iteration."""
    group, members = attempt.group, set[str]()
    for number, line in journal_lines(folder):
        if _GROUP in line:
            event = parse_line(line, number)
            if isinstance(event, GroupStarted) and _place(event) == _place(group):
                members |= set(event.members)
        elif _TURN in line and (named := _TRAJECTORY.search(line)) and named[1].decode(errors="replace") in members:
            event = parse_line(line, number)
            if isinstance(event, Turn) and event.trajectory != attempt.trajectory:
                yield event


def last_settings(folder: Path) -> RunConfig:
    """Return the settings with which the run in a folder was started last. Raises RecordingError."""
    config: RunConfig | None = None
    for number, line in journal_lines(folder):
        if _START in line and isinstance(event := parse_line(line, number), RunStarted):
            config = own_settings(event)
    if config is None:
        raise RecordingError(f"{folder} holds no run that was started")
    return config


def choose_checkpoint(folder: Path, wanted: int) -> int:
    """Return the kept checkpoint that is the nearest to the weights after so many iterations; 0: the initial policy."""
    saved = checkpoints.checkpoint_iterations(folder)
    if wanted == 0 and wanted not in saved:
        return 0
    nearest = nearest_checkpoint(saved, wanted)
    if nearest is None:
        raise RecordingError(f"{folder} holds no checkpoint of the run")
    return nearest


def weights_source(folder: Path, config: RunConfig, iteration: int) -> Path | str:
    """Return the source of the weights after that many iterations. Raises RecordingError."""
    if config.hosted.url:
        raise RecordingError("the policy of this run is a hosted model: its weights are not here")
    saved = checkpoints.checkpoint_iterations(folder)
    if iteration in saved:
        if problem := checkpoints.damage(folder, iteration, is_model_file):
            raise RecordingError(problem)
        return checkpoints.get_path(folder, iteration)
    if iteration == 0:
        return initial_policy(folder, config)
    possible = ", ".join(str(number) for number in sorted({0, *saved}))
    raise RecordingError(
        f"there is no checkpoint of iteration {iteration}; there are {possible} (0: the initial policy)"
    )


def journal_lines(folder: Path) -> Iterator[tuple[int, bytes]]:
    """Yield number and bytes of the journal's complete lines. Raises RecordingError without a journal."""
    path = folder / JOURNAL_FILE
    if not path.exists():
        raise RecordingError(f"{folder} holds no journal of a run")
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if line.endswith(b"\n"):
                yield number, line


def own_settings(event: RunStarted) -> RunConfig:
    """Return the settings with which a run was started. Raises RecordingError if another trainer recorded it."""
    if event.config.get("recorded") is not None:
        raise RecordingError(
            "this run was recorded from another trainer: its checkpoints and chat format are not known"
        )
    return stored_config(event.config)


def _place(group: GroupStarted) -> tuple[int, str, str | None, str]:
    return group.iteration, group.split, group.suite, group.environment
