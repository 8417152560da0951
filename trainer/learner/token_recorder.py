"""Token recorder: selects trajectories for token records in the journal, and packs their tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import Tensor

from trainer.config.run import JournalConfig
from trainer.journal import token_arrays
from trainer.journal.events import TrajectoryTokens
from trainer.journal.token_arrays import Unlearned
from trainer.learner.learnt_tokens import LearntBatch
from trainer.policy.chat_format import ChatFormat
from trainer.rollout.reading_order import reading_order
from trainer.rollout.token_texts import TokenTexts
from trainer.rollout.trajectory import Trajectory


class TokenRecorder:
    """Creates the `trajectory_tokens` events of one run."""

    def __init__(self, config: JournalConfig, chat: ChatFormat) -> None:
        self.keep = config.tokens
        self.texts = TokenTexts(chat)

    def evaluated(self, trajectories: Sequence[Trajectory]) -> Iterator[TrajectoryTokens]:
        """Yield the events of an evaluation."""
        if self.keep != "none":
            for trajectory in trajectories:
                yield from self._event(trajectory, "evaluation")

    def learned(
        self,
        trajectories: Sequence[Trajectory],
        kept: Sequence[Trajectory],
        learnt: LearntBatch | None,
    ) -> Iterator[TrajectoryTokens]:
        """Yield the events of a training rollout, after its update.

        Args:
            trajectories: all trajectories of the rollout.
            kept: trajectories in the batch, in its order.
            learnt: the update's batch after it; None if the update was skipped.
        """
        if self.keep == "none":
            return
        names = {trajectory.id for trajectory in kept}
        learned = {} if learnt is None else _by_trajectory(kept, learnt)
        for trajectory in trajectories:
            if trajectory.id in names:
                yield from self._event(trajectory, "no_update", learned.get(trajectory.id))
            elif self.keep == "all":
                yield from self._event(trajectory, "broken" if trajectory.failed else "dropped")

    def _event(
        self, trajectory: Trajectory, unlearned: Unlearned, learned: _Learned | None = None
    ) -> Iterator[TrajectoryTokens]:
        """Yield the event of a trajectory; nothing without sampled tokens, or if the engine did not report them."""
        turn_of = np.asarray(trajectory.turn_of)
        sampled = turn_of >= 0
        logprobs, entropies = np.asarray(trajectory.logprobs)[sampled], np.asarray(trajectory.entropies)[sampled]
        if not sampled.any() or np.isnan(logprobs).any():
            return
        turns = np.bincount(turn_of[sampled], minlength=len(trajectory.turns)).tolist()
        ids = np.asarray(trajectory.ids)[sampled].tolist()
        lengths: list[int] = []
        retokenised: list[bool] = []
        encodes = self.texts.chat.knows_prompt_tokens
        for turn, count in zip(trajectory.turns, turns, strict=True):
            response = ids[len(lengths) : len(lengths) + count]
            lengths += self.texts.lengths(response, turn.response)
            retokenised += self.texts.retokenised(response, turn.response) if encodes else []
        updates = learned.updates(logprobs) if learned else None
        packed = token_arrays.arrays(
            turns=turns,
            ids=ids,
            lengths=lengths,
            logprobs=logprobs,
            entropies=None if np.isnan(entropies).any() else entropies,
            advantages=learned.advantages if learned else None,
            unlearned=None if learned else unlearned,
            context=reading_order(trajectory, self.texts, in_loss=updates is not None),
            updates=updates,
            retokenised=retokenised if encodes else None,
        )
        data = token_arrays.pack(packed)
        if len(data) > token_arrays.MAX_PACKED:
            data = token_arrays.pack(replace(packed, context=None))
        yield TrajectoryTokens(
            trajectory=trajectory.id,
            tokens=len(ids),
            unlearned=packed.unlearned,
            mismatch=None if updates is None else float(np.abs(updates.differences.astype(np.float64)).mean()),
            retokenised=sum(retokenised) if encodes else None,
            data=data,
        )


def retokenised_share(events: Sequence[TrajectoryTokens]) -> dict[str, float]:
    """Return mismatch/retokenised over recorded trajectories; empty if none says how many of its tokens it is."""
    known = [event for event in events if event.retokenised is not None]
    tokens = sum(event.tokens for event in known)
    return {"mismatch/retokenised": sum(event.retokenised or 0 for event in known) / tokens} if tokens else {}


@dataclass(frozen=True)
class _Learned:
    """A trajectory's sampled tokens after the update, (n,) each; `values` are missing if only the critic learnt."""

    advantages: Any
    values: tuple[Any, Any, Any] | None

    def updates(self, logprobs: Any) -> token_arrays.TokenUpdates | None:
        return None if self.values is None else token_arrays.updates(logprobs, *self.values)


def _by_trajectory(kept: Sequence[Trajectory], learnt: LearntBatch) -> Mapping[str, _Learned]:
    """Map each trajectory to its tokens in sampling order, which is the order of the batch's rows."""
    tokens = learnt.tokens
    ends = np.cumsum([trajectory.tokens for trajectory in kept])[:-1]

    def split(values: Tensor) -> list[Any]:
        return np.split(values[learnt.batch.mask].cpu().numpy(), ends)

    advantages = split(tokens.advantages.float())
    if not tokens.trains_policy:
        return {trajectory.id: _Learned(part, None) for trajectory, part in zip(kept, advantages, strict=True)}
    values = zip(*map(split, (tokens.logprobs, tokens.ratios, tokens.clipped)), strict=True)
    return {
        trajectory.id: _Learned(part, triple) for trajectory, part, triple in zip(kept, advantages, values, strict=True)
    }
