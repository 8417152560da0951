"""Executed actions of a trajectory with the solver's knowledge before and after each of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from envs import registry
from envs.base import Board
from webapp.trajectories.mistakes.budgets import Limits
from webapp.trajectories.mistakes.values import position_value

Data = Mapping[str, Any]
UNLIMITED = 1_000_000
"""Actions left in an attempt with unknown budgets: enough for any puzzle."""
_BOARD: TypeAdapter[Board] = TypeAdapter(Board)


@dataclass(frozen=True)
class JudgedAction:
    """An executed action.

    Attributes:
        turn, action: 0-based.
        named: number of executed actions of the turn with the same name.
        before, after: boards; hint_before and hint_after: the solver's hints there.
        left: actions that could still be executed, this one included.
        value: value of the state before, for best play; None if the solver does not know.
        kept: value after the action; with random dynamics its expectation, whatever happened then.
        better: the best actions before it, best first.
        random: True if the values are chances, under random dynamics.
    """

    turn: int
    action: int
    named: int
    record: Data
    before: Data
    after: Data
    hint_before: Data | None
    hint_after: Data | None
    left: int
    value: float | None
    kept: float | None
    better: tuple[str, ...]
    random: bool

    @property
    def name(self) -> str:
        """The action that the agent chose."""
        return str(self.record.get("name") or self.record["text"])

    @property
    def loss(self) -> float:
        """Lost value; 0 if the solver does not know, and for the best action."""
        if self.value is None or self.kept is None or self.name in self.better:
            return 0.0
        return max(0.0, self.value - self.kept)

    @property
    def dead_end(self) -> bool:
        """True if the action made success impossible."""
        return _unsolvable(self.hint_after) and not _unsolvable(self.hint_before)


def judge_actions(played: Data, environment: str, limits: Limits | None) -> Iterator[JudgedAction]:
    """Yield the executed actions in order. `played`: see trajectory_data()."""
    board, hint = played["board"], played.get("hint")
    used = 0
    for turn in played["turns"]:
        executed = [record for record in turn["actions"] if record["status"] == "executed"]
        for number, record in enumerate(turn["actions"]):
            if record["status"] != "executed":
                continue
            left = limits.left(turn["turn"], number, used) if limits else UNLIMITED
            used += 1
            after = record.get("board") or board
            hint_after = record.get("hint")
            chances = _chances(environment, board, limits, left)
            value: float | None
            if chances:
                value = best = max(chances.values())
                kept = chances.get(str(record.get("name")))
                better = tuple(name for name, chance in chances.items() if chance >= best - 1e-9)
            else:
                value, kept = position_value(hint, left), position_value(hint_after, left - 1)
                better = tuple((hint or {}).get("actions") or ())
            yield JudgedAction(
                turn=turn["turn"],
                action=number,
                named=sum(other.get("name") == record.get("name") for other in executed),
                record=record,
                before=board,
                after=after,
                hint_before=hint,
                hint_after=hint_after,
                left=left,
                value=value,
                kept=kept,
                better=better,
                random=bool(chances),
            )
            board, hint = after, hint_after


def _chances(environment: str, board: Data, limits: Limits | None, left: int) -> dict[str, float] | None:
    if limits is None or board.get("kind") != "grid":
        return None
    try:
        state = _BOARD.validate_python(board)
    except ValidationError:
        return None
    return registry.action_values(environment, state, limits.settings, left)


def _unsolvable(hint: Data | None) -> bool:
    return hint is not None and hint.get("solvable") == "no"
