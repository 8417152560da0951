"""Input of the policy at a turn: chat template, task, states and responses, in the policy's order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from webapp.trajectories.reading import frames


@dataclass(frozen=True)
class InputPiece:
    """Consecutive text of one origin. "template" includes the system message and the tag that begins the response."""

    origin: Literal["template", "task", "state", "response"]
    text: str


def policy_input(
    task: str, events: Sequence[Mapping[str, Any]], turn: int, *, context_turns: int = 0
) -> list[InputPiece]:
    """Return everything that the policy reads before its response at a turn.

    Args:
        task: task of the group.
        events: the trajectory's turn events in order, at least up to this turn.
        turn: 0-based.
        context_turns: setting of the run: maximum number of turns in the dialogue, including this one; 0 = no maximum.
    """
    around = list(frames(events[: turn + 1]))
    first = max(0, turn + 1 - context_turns) if context_turns else 0
    prefix, suffix = around[0]
    pieces = [
        InputPiece("template", prefix),
        InputPiece("task", task),
        InputPiece("state", events[first]["state"]),
        InputPiece("template", suffix),
    ]
    for number in range(first + 1, turn + 1):
        prefix, suffix = around[number]
        pieces += [
            InputPiece("response", events[number - 1]["response"]),
            InputPiece("template", prefix),
            InputPiece("state", events[number]["state"]),
            InputPiece("template", suffix),
        ]
    return [piece for piece in pieces if piece.text]


def has_template(events: Sequence[Mapping[str, Any]]) -> bool:
    """Return True if the trainer recorded the text of the chat template; other trainers and hosted models do not."""
    return bool(events) and events[0].get("frame") is not None
