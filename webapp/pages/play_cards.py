"""Attempts at one puzzle next to each other, moved by one scrubber (templates/trajectories/_plays.html)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from webapp.core import formatting
from webapp.trajectories.board_text import board_text
from webapp.trajectories.models import Trajectory


@dataclass(frozen=True)
class PlayCard:
    """One of the attempts.

    Attributes:
        label: its name for screen readers.
        number: of its colour, from 1.
        trajectory: None if this side has not played the puzzle.
        data: its data in the player's format; None without a trajectory.
        played: when, or with which weights, it was played.
        missing: why there is no attempt.
    """

    label: str
    title: str
    number: int
    trajectory: Trajectory | None
    data: dict[str, Any] | None
    letter: str = ""
    played: str = ""
    missing: str = ""

    @property
    def board_text(self) -> str:
        """Its initial board for pages without JavaScript."""
        return board_text(self.data["board"]) if self.data else ""

    @property
    def outcome(self) -> str:
        if self.data is None or self.trajectory is None:
            return ""
        turns, actions = len(self.data["turns"]), self.trajectory.action_count
        return formatting.outcome(self.data["success"], self.data["end"], turns, actions, self.data["lost_at"])
