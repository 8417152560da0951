"""Positions of recorded episodes, from which they are played on: the same dialogue, in the same state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainer.engines.sampler import SampledResponse
from trainer.journal.events import Turn
from trainer.rollout.episode import Episode

_SHOWN = 400  # characters of a state in a message


class PositionError(ValueError):
    """A position cannot be restored. The message gives the turn, counted from 1, and the reason."""


@dataclass(frozen=True)
class Position:
    """The position before the response of a turn, and what is changed there.

    Attributes:
        turns: the recorded turns before it.
        responses: their responses as they were sampled.
        state: what the agent read at the position, as recorded.
        changed_state: what it reads now; None: the same.
        beginning: beginning of its response, which the policy continues; None: it writes the whole response.
        is_complete: `beginning` is the whole response of the turn.
        luck: seeds of all later randomness in the environment, by member of the group; empty: as recorded.
    """

    turns: Sequence[Turn]
    responses: Sequence[SampledResponse]
    state: str
    changed_state: str | None = None
    beginning: SampledResponse | None = None
    is_complete: bool = False
    luck: Sequence[int] = ()

    def restore(self, episode: Episode) -> Turn | None:
        """Play a fresh episode to this position; its actions are taken again, and its states compared.

        Returns the turn at the position if its whole response is given.

        Raises:
            PositionError: the environment differs from the recording, or the response does not fit.
        """
        for recorded, response in zip(self.turns, self.responses, strict=True):
            self._check_state(episode, recorded.turn, recorded.state)
            episode.prompt()
            played = episode.receive(response)
            if played is None or played.response != recorded.response:
                raise PositionError(
                    f"the response of turn {recorded.turn + 1} cannot be written in the tokens of this policy"
                )
        number = len(self.turns)
        self._check_state(episode, number, self.state)
        if self.luck:
            episode.env.reseed(self.luck[episode.trajectory.member])
        if self.changed_state is not None:
            episode.change_state(self.changed_state)
        if self.beginning is None:
            return None
        limit = episode.rollout.max_response_tokens
        if episode.chat.knows_prompt_tokens and len(self.beginning.ids) > limit:
            raise PositionError(
                f"the text has {len(self.beginning.ids)} tokens, and a response at most {limit} "
                "(rollout.max_response_tokens)"
            )
        if self.is_complete:
            episode.prompt()
            return episode.receive(self.beginning)
        episode.begin_response(self.beginning)
        return None

    def _check_state(self, episode: Episode, number: int, recorded: str) -> None:
        where = f"at turn {number + 1}"
        if episode.trajectory.error:
            raise PositionError(f"{where} the episode could not be played again: {episode.trajectory.error}")
        if episode.ended:
            raise PositionError(f"{where} the episode is over, but the recording continues")
        if episode.state != recorded:
            raise PositionError(
                f"{where} the environment differs from the recording, as if its code or its data had changed. "
                f"Recorded: {_short(recorded)} Now: {_short(episode.state)}"
            )


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")
