"""Replay of one recorded update: rebuilds its batch from the journal and runs it on the preceding checkpoint."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from trainer.config.removed import stored_config
from trainer.config.run import RunConfig
from trainer.journal import token_arrays
from trainer.journal.events import GroupStarted, Metrics, RunStarted, TrajectoryFinished, TrajectoryTokens, Turn
from trainer.journal.protocol import JOURNAL_FILE
from trainer.journal.reader import read
from trainer.journal.token_arrays import TokenArrays
from trainer.learner.batch_selection import select_batch
from trainer.learner.learner import Learner
from trainer.loops.stages import checkpoints
from trainer.loops.stages.initial_policies import initial_policy
from trainer.loops.stages.policy_setup import keeps_reference
from trainer.loops.train import make_batch
from trainer.policy.chat_format import ChatFormat
from trainer.policy.load import load
from trainer.rollout.environment_mix import get_shares
from trainer.rollout.rebuilding import CONTEXT_FULL, Response, rebuild_dialogue
from trainer.rollout.trajectory import Trajectory


class ReplayError(ValueError):
    """An update cannot be replayed. The message gives the reason, and the iterations that can be replayed."""


@dataclass(frozen=True)
class Replay:
    """Metrics of a replayed update, the run's metrics of the same names, and warnings about the learner's state."""

    iteration: int
    replayed: dict[str, float]
    recorded: dict[str, float]
    warnings: list[str]

    def table(self) -> str:
        """Format the metrics as text, one line each: name, recorded, replayed, difference."""
        lines = [f"{'metric':<32} {'recorded':>14} {'replayed':>14} {'difference':>12}"]
        for name, value in sorted(self.replayed.items()):
            recorded = self.recorded.get(name)
            if recorded is None:
                lines.append(f"{name:<32} {'–':>14} {value:>14.6g}")
            else:
                lines.append(f"{name:<32} {recorded:>14.6g} {value:>14.6g} {value - recorded:>12.2g}")
        return "\n".join(lines)


@dataclass
class _Record:
    """The journal's events of one iteration, in the latest attempt that played it."""

    config: RunConfig | None = None
    groups: list[GroupStarted] = field(default_factory=list)
    turns: dict[str, list[Turn]] = field(default_factory=dict)
    ends: dict[str, TrajectoryFinished] = field(default_factory=dict)
    tokens: dict[str, TokenArrays] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)


def replay_update(folder: Path, iteration: int) -> Replay:
    """Run the update of an iteration again, without saving anything.

    The journal contains log-probabilities in half precision, so metrics differ in about the third digit.

    Args:
        folder: folder of a training run.
        iteration: counted from 1; the preceding iteration must have a checkpoint, except for the first.
    Raises:
        ReplayError: the journal or the checkpoints do not contain enough.
        ModelError: the policy cannot be loaded.
        JournalError: the journal is broken.
    """
    record = _read_record(folder, iteration)
    config = record.config
    if config is None or config.kind != "train":
        raise ReplayError(f"{folder} holds no training run: only updates of `trainer train` can be replayed")
    start = _checkpoint_before(folder, iteration)
    _check_tokens(record, iteration)
    base = initial_policy(folder, config)
    source = base if start is None or config.lora.rank else checkpoints.get_path(folder, start)
    policy = load(source, config.policy)
    chat = ChatFormat.of_rollout(policy.tokenizer, config.rollout, policy.end_ids)
    trajectories = _trajectories(record, config, chat)
    selection = select_batch([t for t in trajectories if not t.failed], config.algorithm)
    learned = {name for name, arrays in record.tokens.items() if arrays.advantages is not None}
    if {trajectory.id for trajectory in selection.kept} != learned:
        raise ReplayError(f"the journal's tokens of iteration {iteration} are not those of the groups that were kept")
    reference = load(base, config.policy) if keeps_reference(config, policy) else None
    learner = Learner(config, policy, reference)
    warnings = [] if start is None else checkpoints.load_learner(folder, start, learner)
    metrics = learner.update(make_batch(selection, policy.pad_id, config.algorithm), iteration)
    return Replay(iteration, metrics, record.metrics, warnings)


def _read_record(folder: Path, iteration: int) -> _Record:
    """Read the record of the iteration in the last attempt that played it."""
    path = folder / JOURNAL_FILE
    if not path.exists():
        raise ReplayError(f"{folder} holds no journal of a run")
    record = _Record()
    members: set[str] = set()
    for event in read(path):
        match event:
            case RunStarted() if event.from_iteration < iteration:
                record, members = _Record(stored_config(event.config)), set()
            case GroupStarted() if event.split == "train" and event.iteration == iteration:
                record.groups.append(event)
                members |= set(event.members)
            case Turn() if event.trajectory in members:
                record.turns.setdefault(event.trajectory, []).append(event)
            case TrajectoryFinished() if event.trajectory in members:
                record.ends[event.trajectory] = event
            case TrajectoryTokens() if event.trajectory in members:
                record.tokens[event.trajectory] = token_arrays.unpack(event.data)
            case Metrics() if event.iteration == iteration and "reward/mean" in event.values:
                record.metrics = event.values
            case _:
                pass
    return record


def _checkpoint_before(folder: Path, iteration: int) -> int | None:
    """Return the checkpoint from which the iteration started; None for the initial policy."""
    saved = checkpoints.checkpoint_iterations(folder)
    if iteration - 1 in saved:
        return iteration - 1
    if iteration == 1:
        return None
    possible = ", ".join(str(number) for number in sorted({1, *(number + 1 for number in saved)}))
    raise ReplayError(
        f"iteration {iteration} began with the weights of iteration {iteration - 1}, of which no checkpoint is kept: "
        f"only {possible} can be replayed, as far as the run played them. To keep more, raise checkpoint.keep and "
        "set checkpoint.every=1"
    )


def _check_tokens(record: _Record, iteration: int) -> None:
    if not record.metrics:
        raise ReplayError(f"the journal holds no finished update of iteration {iteration}")
    if "update/steps" not in record.metrics:
        raise ReplayError(f"nothing was learned in iteration {iteration}: its update was skipped")
    if not any(arrays.advantages is not None for arrays in record.tokens.values()):
        raise ReplayError(
            f"the journal holds no tokens of iteration {iteration}: runs record them with journal.tokens=kept or all"
        )


def _trajectories(record: _Record, config: RunConfig, chat: ChatFormat) -> list[Trajectory]:
    """Return the iteration's trajectories ordered by group, with token ids if the journal contains them."""
    numbers = {share.name: share.number for share in get_shares(config)}
    played = []
    for group in sorted(record.groups, key=lambda event: event.group):
        environment = numbers[group.environment]
        for member, name in enumerate(group.members):
            trajectory = Trajectory(name, group.group, member, environment, turns=record.turns.get(name, []))
            error = record.ends[name].error if name in record.ends else "no end was recorded"
            trajectory.failed = error is not None and CONTEXT_FULL not in error
            if name in record.tokens:
                context_turns = get_shares(config)[environment].config.rollout.context_turns
                bound = chat.with_tools(group.tools or ())
                responses = _responses(record.tokens[name])
                rebuild_dialogue(trajectory, responses, group.prompt, bound, context_turns)
            played.append(trajectory)
    return played


def _responses(arrays: TokenArrays) -> list[Response]:
    """Return ids and log-probabilities of each turn's response."""
    assert arrays.logprobs is not None, "only other trainers may send none"
    responses, start = [], 0
    for count in arrays.turns:
        part = slice(start, start + count)
        responses.append((arrays.ids[part].tolist(), arrays.logprobs[part].astype(float).tolist()))
        start += count
    return responses
