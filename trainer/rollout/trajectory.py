"""Trajectories with their token ids, masks and rewards, and batches of them as tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields

import torch
from torch import Tensor

from envs.sandbox.client import EnvironmentFailure
from trainer.journal.events import LostAt, TrajectoryFinished, Turn
from trainer.policy.packing.host_transfer import to_device


@dataclass(frozen=True)
class TokenSequence:
    """A training sequence: tokens in the policy's reading order, with parallel lists as in `Trajectory`."""

    ids: list[int]
    sampled: list[bool]
    logprobs: list[float]
    turn_of: list[int]


@dataclass
class Trajectory:
    """One episode with all tokens of its dialogue.

    Attributes:
        id: unique within the run.
        group: group of the same initial state.
        member: number within the group.
        environment: number of the environment within the run.
        task: part of the first message before the first state.
        ids: token ids of the whole dialogue.
        sampled: parallel to `ids`: True exactly on tokens sampled by the policy.
        logprobs, entropies: parallel to `ids`: the sampler's values; 0 on other tokens.
        turn_of: parallel to `ids`: the turn of a sampled token; −1 on other tokens.
        prompts: the whole prompt by turn, if it is not the dialogue so far (context windows). The turn's response was
            sampled after this prompt, and is trained on with it (`sequences`).
        versions: version of the weights that sampled a response (`SampledResponse.version`), by turn.
        turns: journal records of the turns.
        thought_spans: start and end of the thought in `ids`, by turn.
        success: whether the episode was solved.
        end: reason for the end of the episode; empty while it is played.
        lost_at: the first action after which success was impossible.
        error: message of the error that ended the episode.
        failed: the environment failed; the trajectory is excluded from metrics and training.
        timed_out: it failed because it did not answer within a time limit.
    """

    id: str
    group: int
    member: int
    environment: int = 0
    task: str = ""
    ids: list[int] = field(default_factory=list)
    sampled: list[bool] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    entropies: list[float] = field(default_factory=list)
    turn_of: list[int] = field(default_factory=list)
    prompts: dict[int, list[int]] = field(default_factory=dict)
    versions: list[int] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    thought_spans: list[tuple[int, int]] = field(default_factory=list)
    success: bool = False
    end: str = ""
    lost_at: LostAt | None = None
    error: str | None = None
    failed: bool = False
    timed_out: bool = False

    @property
    def ended(self) -> bool:
        return bool(self.end)

    @property
    def total_reward(self) -> float:
        """R(τ): the sum of all reward terms of all turns."""
        return sum(turn.reward for turn in self.turns)

    @property
    def actions(self) -> int:
        """Number of executed actions."""
        return sum(action.status == "executed" for turn in self.turns for action in turn.actions)

    @property
    def tokens(self) -> int:
        """Number of sampled tokens."""
        return sum(self.sampled)

    def fail(self, error: Exception) -> None:
        """End the trajectory because its environment (or a thought reward) failed."""
        self.end, self.error, self.failed = "truncated", str(error), True
        self.timed_out = isinstance(error, EnvironmentFailure) and error.timed_out

    def finished(self) -> TrajectoryFinished:
        """Return the closing event."""
        return TrajectoryFinished(
            trajectory=self.id,
            success=self.success,
            end=self.end,
            total_reward=self.total_reward,
            turns=len(self.turns),
            actions=self.actions,
            tokens=sum(turn.tokens or 0 for turn in self.turns),
            lost_at=self.lost_at,
            error=self.error,
        )

    def append_prompt(self, ids: Sequence[int]) -> None:
        """Append tokens that the policy did not sample."""
        self.ids += ids
        self.sampled += [False] * len(ids)
        self.logprobs += [0.0] * len(ids)
        self.entropies += [0.0] * len(ids)
        self.turn_of += [-1] * len(ids)

    def append_response(
        self, ids: Sequence[int], logprobs: Sequence[float], entropies: Sequence[float], turn: int
    ) -> None:
        """Append tokens sampled in this turn, with the sampler's log-probabilities and entropies in nats."""
        self.ids += ids
        self.sampled += [True] * len(ids)
        self.logprobs += logprobs
        self.entropies += entropies
        self.turn_of += [turn] * len(ids)

    def response(self, turn: int) -> list[int]:
        """Return the ids sampled in this turn."""
        return [token for token, number in zip(self.ids, self.turn_of, strict=True) if number == turn]

    def sequences(self) -> list[TokenSequence]:
        """Return training sequences in order: every sampled token exactly once, after its prompt.

        There is one sequence, the dialogue itself, unless `prompts` has entries: each such turn starts another one.
        """
        first: dict[int, int] = {}  # first column of the response, by turn
        last: dict[int, int] = {}
        for column, turn in enumerate(self.turn_of):
            if turn >= 0:
                first.setdefault(turn, column)
                last[turn] = column
        windowed = sorted(turn for turn in self.prompts if turn in first)
        if not windowed:
            return [TokenSequence(self.ids, self.sampled, self.logprobs, self.turn_of)]
        starts = [first[turn] for turn in windowed]
        ends = [*(last[turn - 1] + 1 if turn else 0 for turn in windowed), len(self.ids)]
        sequences = [self._sequence([], 0, ends[0])] if ends[0] else []
        for turn, start, end in zip(windowed, starts, ends[1:], strict=True):
            sequences.append(self._sequence(self.prompts[turn], start, end))
        return sequences

    def _sequence(self, prompt: list[int], start: int, end: int) -> TokenSequence:
        """Return a prompt, followed by the dialogue's tokens from `start` to before `end`."""
        return TokenSequence(
            ids=prompt + self.ids[start:end],
            sampled=[False] * len(prompt) + self.sampled[start:end],
            logprobs=[0.0] * len(prompt) + self.logprobs[start:end],
            turn_of=[-1] * len(prompt) + self.turn_of[start:end],
        )


@dataclass
class Batch:
    """Trajectories as right-padded tensors, (B, T) unless noted; column t belongs to token ids[:, t].

    A trajectory has one row, or several with context windows; its rows are contiguous and in playing order.

    Attributes:
        mask: True exactly on tokens sampled after the row's preceding tokens; the policy's prediction of ids[:, t]
            comes from column t − 1.
        trajectory: (B,) number of the row's trajectory, from 0.
        group, environment: (B,) ids of the trajectory's initial state and environment.
        weight: (B,) factor of the trajectory's advantages.
        tokens: (B,) number of the trajectory's sampled tokens.
        total_rewards: (B,) R(τ) of the trajectory.
        anchors: (B, K) id of the state in which each turn of the trajectory began, equal for equal states of the same
            group; −1 if it has no such turn.
    """

    ids: Tensor
    attention: Tensor
    mask: Tensor
    sampler_logprobs: Tensor
    rewards: Tensor
    turn_of: Tensor
    group: Tensor
    environment: Tensor
    weight: Tensor
    anchors: Tensor
    total_rewards: Tensor
    trajectory: Tensor
    tokens: Tensor

    def __len__(self) -> int:
        return self.ids.shape[0]

    def select(self, rows: Tensor) -> Batch:
        """Select the given rows, cut to the length of the longest one."""
        width = int(self.attention[rows].sum(1).max())
        return Batch(
            ids=self.ids[rows, :width],
            attention=self.attention[rows, :width],
            mask=self.mask[rows, :width],
            sampler_logprobs=self.sampler_logprobs[rows, :width],
            rewards=self.rewards[rows, :width],
            turn_of=self.turn_of[rows, :width],
            group=self.group[rows],
            environment=self.environment[rows],
            weight=self.weight[rows],
            anchors=self.anchors[rows],
            total_rewards=self.total_rewards[rows],
            trajectory=self.trajectory[rows],
            tokens=self.tokens[rows],
        )

    def to(self, device: torch.device) -> Batch:
        """Move the batch to a device."""
        return Batch(**{field.name: to_device(getattr(self, field.name), device) for field in fields(self)})


def collate(
    trajectories: Sequence[Trajectory],
    pad_id: int,
    *,
    outcome: bool = False,
    weights: Sequence[float] | None = None,
) -> Batch:
    """Convert a list of trajectories to tensors.

    Args:
        trajectories: at least one, each with at least one sampled token.
        pad_id: padding id (never trained on, never attended to).
        outcome: put the whole R(τ) on the last sampled token instead of each turn's reward on the turn's last token.
        weights: factor of each trajectory's advantages; None: 1 for all.
    """
    rows = [(number, tokens) for number, trajectory in enumerate(trajectories) for tokens in trajectory.sequences()]
    shape = len(rows), max(len(tokens.ids) for _, tokens in rows)
    ids = torch.full(shape, pad_id, dtype=torch.long)
    attention = torch.zeros(shape, dtype=torch.bool)
    mask = torch.zeros(shape, dtype=torch.bool)
    logprobs = torch.zeros(shape)
    rewards = torch.zeros(shape)
    turn_of = torch.full(shape, -1, dtype=torch.long)
    for row, (number, tokens) in enumerate(rows):
        size = len(tokens.ids)
        ids[row, :size] = torch.tensor(tokens.ids)
        attention[row, :size] = True
        mask[row, :size] = torch.tensor(tokens.sampled)
        logprobs[row, :size] = torch.tensor(tokens.logprobs)
        turn_of[row, :size] = torch.tensor(tokens.turn_of)
        last = {turn: column for column, turn in enumerate(tokens.turn_of) if turn >= 0}
        turns = trajectories[number].turns
        for turn in turns:
            rewarded = turns[-1].turn if outcome else turn.turn
            if rewarded in last:
                rewards[row, last[rewarded]] += turn.reward
    trajectory_of = torch.tensor([number for number, _ in rows])
    return Batch(
        ids=ids,
        attention=attention,
        mask=mask,
        sampler_logprobs=logprobs,
        rewards=rewards,
        turn_of=turn_of,
        group=torch.tensor([t.group for t in trajectories])[trajectory_of],
        environment=torch.tensor([t.environment for t in trajectories])[trajectory_of],
        weight=torch.ones(len(rows)) if weights is None else torch.tensor(list(weights))[trajectory_of],
        anchors=_anchors(trajectories)[trajectory_of],
        total_rewards=torch.tensor([t.total_reward for t in trajectories])[trajectory_of],
        trajectory=trajectory_of,
        tokens=torch.tensor([t.tokens for t in trajectories])[trajectory_of],
    )


def _anchors(trajectories: Sequence[Trajectory]) -> Tensor:
    """Return (trajectories, K) ids of the states in which turns began, compared by board; K: most turns."""
    ids: dict[tuple[int, str], int] = {}
    table = torch.full((len(trajectories), max(1, *(len(t.turns) for t in trajectories))), -1, dtype=torch.long)
    for row, trajectory in enumerate(trajectories):
        for turn in trajectory.turns:
            state = (trajectory.group, turn.board.model_dump_json() if turn.board else turn.state)
            table[row, turn.turn] = ids.setdefault(state, len(ids))
    return table
