"""Input of the policy at a turn: chat template, task, states and responses, in the order in which it reads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Frame = tuple[str, str]
NO_FRAME: Frame = ("", "")


@dataclass(frozen=True)
class InputPiece:
    """Consecutive text of one origin. "template" includes the system message and the tag that begins the response."""

    origin: Literal["template", "task", "state", "response"]
    text: str


def policy_input(
    task: str, events: Sequence[Mapping[str, Any]], turn: int, *, context_turns: int = 0
) -> list[InputPiece]:
    """Everything that the policy reads before its response at a turn.

    Args:
        task: of the group.
        events: the trajectory's turn events in order, up to this turn at least.
        turn: 0-based.
        context_turns: of the run: the dialogue begins at most so many turns back, this one included; 0 = at the first.
    """
    frames = list(_frames(events[: turn + 1]))
    first = max(0, turn + 1 - context_turns) if context_turns else 0
    before, after = frames[0]
    pieces = [
        InputPiece("template", before),
        InputPiece("task", task),
        InputPiece("state", events[first]["state"]),
        InputPiece("template", after),
    ]
    for number in range(first + 1, turn + 1):
        before, after = frames[number]
        pieces += [
            InputPiece("response", events[number - 1]["response"]),
            InputPiece("template", before),
            InputPiece("state", events[number]["state"]),
            InputPiece("template", after),
        ]
    return [piece for piece in pieces if piece.text]


def has_template(events: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the trainer recorded the text of the chat template. Other trainers, and hosted models, do not."""
    return bool(events) and events[0].get("frame") is not None


def _frames(events: Sequence[Mapping[str, Any]]) -> Iterator[Frame]:
    """Text of the template around each message; an event without it has that of the turn before."""
    frame = NO_FRAME
    for event in events:
        if (recorded := event.get("frame")) is not None:
            frame = (recorded[0], recorded[1])
        yield frame
