"""Reading order of a trajectory: every token that the policy read or wrote, with what it belongs to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from trainer.journal import token_arrays
from trainer.journal.events import Turn
from trainer.journal.token_arrays import KINDS, Context, Segment, TokenKind
from trainer.policy.chat_format import ChatFormat
from trainer.rollout.token_texts import TokenTexts
from trainer.rollout.trajectory import Trajectory

Mark = tuple[str, TokenKind]
"""A text that a prompt contains, and the kind of its tokens."""


def reading_order(trajectory: Trajectory, texts: TokenTexts, *, in_loss: bool) -> Context | None:
    """Return the reading order of a trajectory; None if the model's prompt tokens are unknown, or too many to be shown.

    With a context window, the prompt of a turn is the whole window, which restarts the context.

    Args:
        in_loss: whether the update's loss contained the trajectory's sampled tokens.
    """
    chat = texts.chat
    if not chat.knows_prompt_tokens:
        return None
    segments: list[Segment] = []
    ids: list[int] = []
    lengths: list[int] = []
    written: list[str] = []
    as_recorded = True
    frame = ("", "")
    for turn, (prompt, sampled) in zip(trajectory.turns, _turns(trajectory), strict=True):
        frame = turn.frame or frame
        restarts = turn.turn in trajectory.prompts
        prompt_lengths, message = texts.decode(prompt)
        as_recorded &= _message(turn, frame, trajectory.task).endswith(message)  # the rest is the sampled end token
        marks = _window_marks(trajectory, turn, chat) if restarts else _marks(trajectory, turn, chat)
        kinds = _kinds(message, prompt_lengths, marks)
        for number, (kind, group) in enumerate(groupby(kinds)):
            tokens = len(list(group))
            segments.append(Segment(KINDS[kind], turn.turn, tokens, restarts=restarts and number == 0))
        ids += prompt
        lengths += prompt_lengths
        written += [message, turn.response]
        if sampled:
            segments.append(Segment("response", turn.turn, sampled, sampled=True, in_loss=in_loss))
    if len(ids) + trajectory.tokens > token_arrays.MAX_TOKENS:  # windows are read again and again
        return None
    text = None if as_recorded else "".join(written)
    if text is not None and len(text) > token_arrays.MAX_TEXT:
        return None
    return token_arrays.context(segments, ids, lengths, text)


def _turns(trajectory: Trajectory) -> Iterator[tuple[list[int], int]]:
    """Yield the tokens that were read for each turn, and how many were sampled in it.

    The tokens are those since the last response, or the turn's whole window.
    """
    turn_of, start = np.asarray(trajectory.turn_of), 0
    for turn in trajectory.turns:
        places = np.flatnonzero(turn_of == turn.turn)
        first = int(places[0]) if len(places) else start
        yield trajectory.prompts.get(turn.turn, trajectory.ids[start:first]), len(places)
        start = first + len(places)


def _message(turn: Turn, frame: tuple[str, str], task: str) -> str:
    """Return the prompt of a turn as the journal's readers put it together."""
    return frame[0] + (task if turn.turn == 0 else "") + turn.state + frame[1]


def _opening_marks(trajectory: Trajectory, chat: ChatFormat) -> list[Mark]:
    return [(chat.system, "system"), (trajectory.task, "task")]


def _marks(trajectory: Trajectory, turn: Turn, chat: ChatFormat) -> list[Mark]:
    return [*(_opening_marks(trajectory, chat) if turn.turn == 0 else []), (turn.state, "observation")]


def _window_marks(trajectory: Trajectory, turn: Turn, chat: ChatFormat) -> list[Mark]:
    """Return the marks of a window. All windows have as many turns as come before the first of them."""
    marks = _opening_marks(trajectory, chat)
    for earlier in trajectory.turns[turn.turn + 1 - min(trajectory.prompts) : turn.turn]:
        marks += [(earlier.state, "observation"), (earlier.response, "response")]
    return [*marks, (turn.state, "observation")]


def _kinds(text: str, lengths: Sequence[int], marks: Sequence[Mark]) -> list[int]:
    """Return the number of the kind of each token: of the mark in which it starts, otherwise of the template."""
    kinds = np.zeros(len(text) + 1, np.int8)
    position = 0
    for wanted, kind in marks:
        start = text.find(wanted, position) if wanted else -1
        if start >= 0:
            position = start + len(wanted)
            kinds[start:position] = KINDS.index(kind)
    sizes: NDArray[np.int64] = np.asarray(lengths, np.int64)
    starts = np.cumsum(sizes) - sizes
    found: list[int] = kinds[starts].tolist()
    return found
