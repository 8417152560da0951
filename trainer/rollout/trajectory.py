"""What was played: trajectories with their token ids, masks and rewards, and batches of them as tensors.

Pure data; playing is rollout.py's business, scoring advantages.py's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields

import torch
from torch import Tensor

from trainer.journal.events import LostAt, TrajectoryFinished, Turn


@dataclass(frozen=True)
class TokenSequence:
    """One stretch of tokens as the policy had it before it, with lists that run parallel as in `Trajectory`."""

    ids: list[int]
    sampled: list[bool]
    logprobs: list[float]
    turn_of: list[int]


@dataclass
class Trajectory:
    """One episode as the policy lived it.

    `ids` holds the whole dialogue, in order; the lists beside it run parallel: `sampled` is True exactly on tokens the
    policy drew, `logprobs` and `entropies` are the sampler's (0 elsewhere), `turn_of` is the turn a sampled token
    belongs to (−1 elsewhere).

    `prompts` is for dialogues that are shown only in part: by turn, everything the policy read instead of what the
    dialogue holds up to there. What it drew next it drew after that, and only that is trained on (`sequences`).
    """

    id: str
    group: int
    member: int
    environment: int = 0
    ids: list[int] = field(default_factory=list)
    sampled: list[bool] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    entropies: list[float] = field(default_factory=list)
    turn_of: list[int] = field(default_factory=list)
    prompts: dict[int, list[int]] = field(default_factory=dict)
    turns: list[Turn] = field(default_factory=list)
    thought_spans: list[tuple[int, int]] = field(default_factory=list)
    success: bool = False
    end: str = ""
    lost_at: LostAt | None = None
    error: str | None = None
    failed: bool = False
    """The environment broke down: what happened until then is no sample of play, and nobody learns of it."""

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

    def fail(self, reason: str) -> None:
        """The environment broke down, before the first state or while it was played."""
        self.end, self.error, self.failed = "truncated", reason, True

    def finished(self) -> TrajectoryFinished:
        """The closing event."""
        return TrajectoryFinished(
            trajectory=self.id,
            success=self.success,
            end=self.end,
            total_reward=self.total_reward,
            turns=len(self.turns),
            actions=self.actions,
            tokens=sum(turn.tokens for turn in self.turns),
            lost_at=self.lost_at,
            error=self.error,
        )

    def read(self, ids: Sequence[int]) -> None:
        """Append tokens the policy did not write."""
        self.ids += ids
        self.sampled += [False] * len(ids)
        self.logprobs += [0.0] * len(ids)
        self.entropies += [0.0] * len(ids)
        self.turn_of += [-1] * len(ids)

    def wrote(self, ids: Sequence[int], logprobs: Sequence[float], entropies: Sequence[float], turn: int) -> None:
        """Append tokens the policy drew in this turn, with the sampler's numbers."""
        self.ids += ids
        self.sampled += [True] * len(ids)
        self.logprobs += logprobs
        self.entropies += entropies
        self.turn_of += [turn] * len(ids)

    def response(self, turn: int) -> list[int]:
        """Ids that were drawn in this turn."""
        return [token for token, number in zip(self.ids, self.turn_of, strict=True) if number == turn]

    def sequences(self) -> list[TokenSequence]:
        """What is trained on, in order: every sampled token exactly once, after what the policy read when it drew it.

        One sequence, the dialogue itself, unless the policy was shown only a part of it at some turn: each such turn
        begins another one.
        """
        first: dict[int, int] = {}  # by turn, where its response begins
        last: dict[int, int] = {}
        for column, turn in enumerate(self.turn_of):
            if turn >= 0:
                first.setdefault(turn, column)
                last[turn] = column
        anew = sorted(turn for turn in self.prompts if turn in first)
        if not anew:
            return [TokenSequence(self.ids, self.sampled, self.logprobs, self.turn_of)]
        starts = [first[turn] for turn in anew]
        ends = [*(last[turn - 1] + 1 if turn else 0 for turn in anew), len(self.ids)]
        found = [self._stretch([], 0, ends[0])] if ends[0] else []
        for turn, start, end in zip(anew, starts, ends[1:], strict=True):
            found.append(self._stretch(self.prompts[turn], start, end))
        return found

    def _stretch(self, read: list[int], start: int, end: int) -> TokenSequence:
        """The dialogue's tokens from `start` to before `end`, behind others that were read."""
        return TokenSequence(
            ids=read + self.ids[start:end],
            sampled=[False] * len(read) + self.sampled[start:end],
            logprobs=[0.0] * len(read) + self.logprobs[start:end],
            turn_of=[-1] * len(read) + self.turn_of[start:end],
        )


@dataclass
class Batch:
    """Trajectories as right-padded tensors; all (B, T), aligned so that column t is about the token ids[:, t].

    `mask` is True exactly on tokens that were sampled after what stands before them; the policy's prediction of
    ids[:, t] comes from column t − 1.

    A trajectory is one row, or several where the policy was shown only a part of the dialogue: `trajectory` (B,) says
    which one a row belongs to, numbered from 0, its rows together and in the order in which they were played.

    Of trajectories, (B,), the same in all rows of one: `group` is the id of the initial state, `environment` that of
    the world, `weight` scales the advantages, `tokens` is the number of sampled tokens. `anchors` is (B, K): an id of
    the state in which each turn began, the same for the same state of the same group, −1 where a trajectory has no
    such turn.
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
        """The given rows, cut to the longest of them."""
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
        """The same on a device."""
        return Batch(**{field.name: getattr(self, field.name).to(device) for field in fields(self)})


def collate(
    trajectories: Sequence[Trajectory],
    pad_id: int,
    *,
    outcome: bool = False,
    weights: Sequence[float] | None = None,
) -> Batch:
    """Tensors of a list of trajectories.

    Args:
        trajectories: at least one, each with at least one sampled token.
        pad_id: id put into the padding (never trained on, never attended to).
        outcome: put the whole R(τ) on the last sampled token instead of each turn's reward on the turn's last one.
        weights: what each trajectory's advantages are multiplied with; None: 1 for all.
    """
    rows = [(number, tokens) for number, played in enumerate(trajectories) for tokens in played.sequences()]
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
            paid = turns[-1].turn if outcome else turn.turn
            if paid in last:
                rewards[row, last[paid]] += turn.reward
    of = torch.tensor([number for number, _ in rows])
    return Batch(
        ids=ids,
        attention=attention,
        mask=mask,
        sampler_logprobs=logprobs,
        rewards=rewards,
        turn_of=turn_of,
        group=torch.tensor([t.group for t in trajectories])[of],
        environment=torch.tensor([t.environment for t in trajectories])[of],
        weight=torch.ones(len(rows)) if weights is None else torch.tensor(list(weights))[of],
        anchors=_anchors(trajectories)[of],
        total_rewards=torch.tensor([t.total_reward for t in trajectories])[of],
        trajectory=of,
        tokens=torch.tensor([t.tokens for t in trajectories])[of],
    )


def _anchors(trajectories: Sequence[Trajectory]) -> Tensor:
    """(B, K) states in which turns began, told apart by what a viewer would draw; K is the largest number of turns."""
    known: dict[tuple[int, str], int] = {}
    table = torch.full((len(trajectories), max(1, *(len(t.turns) for t in trajectories))), -1, dtype=torch.long)
    for row, trajectory in enumerate(trajectories):
        for turn in trajectory.turns:
            place = (trajectory.group, turn.board.model_dump_json() if turn.board else turn.state)
            table[row, turn.turn] = known.setdefault(place, len(known))
    return table
