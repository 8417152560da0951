"""Marks of the mistakes in a trajectory, and the verdict on a failed attempt: reason and turn of the failure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from webapp.trajectories.mistakes import sentences
from webapp.trajectories.mistakes.budgets import Limits, get_limits
from webapp.trajectories.mistakes.cells import find_player, touched
from webapp.trajectories.mistakes.steps import UNLIMITED, Data, JudgedAction, judge_actions
from webapp.trajectories.mistakes.values import GLYPHS, MarkClass, classify_loss, position_value
from webapp.trajectories.models import Trajectory
from webapp.trajectories.positions import START, positions

VerdictKind = Literal["mistake", "slip", "budget"]


@dataclass(frozen=True)
class Mark:
    """A mistake. `turn` and `action` are 0-based.

    `cells`: rows and columns, from 0, of the box or player concerned; `origin`: the player's cell before the action.
    `value` is the value of best play before the action, `kept` the value after it, and `loss` their difference.
    """

    turn: int
    action: int
    kind: MarkClass
    glyph: str
    played: str
    better: list[str]
    value: float
    kept: float
    loss: float
    sentence: str
    cells: list[list[int]]
    origin: list[int]
    dead_end: bool


@dataclass(frozen=True)
class Verdict:
    """Reason why a failed attempt was not solved, and the position that shows it; `action` −1 is the turn's start."""

    kind: VerdictKind
    turn: int
    action: int
    sentence: str


def judged(trajectory: Trajectory, played: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields `marks` and `verdict` of a trajectory's data; select its group and run with it."""
    limits = get_limits(trajectory)
    steps = list(judge_actions(played, trajectory.group.environment, limits))
    marks = find_marks(steps)
    decision = verdict(played, steps, marks, limits)
    return {"marks": [asdict(mark) for mark in marks], "verdict": asdict(decision) if decision else None}


def find_marks(steps: Sequence[JudgedAction]) -> list[Mark]:
    """Return the mistakes in order."""
    marks = []
    for step in steps:
        dead_end = step.dead_end and not step.random
        kind = classify_loss(step.loss, dead_end=dead_end)
        if kind is None or (dead_end and step.name in step.better):
            continue
        marks.append(
            Mark(
                turn=step.turn,
                action=step.action,
                kind=kind,
                glyph=GLYPHS[kind],
                played=step.name,
                better=list(step.better),
                value=round(step.value or 0.0, 4),
                kept=round(step.kept or 0.0, 4),
                loss=round(step.loss, 4),
                sentence=sentences.mistake_sentence(step),
                cells=touched(step.before, step.after),
                origin=list(find_player(step.before) or ()),
                dead_end=step.dead_end,
            )
        )
    return marks


def is_judged(steps: Sequence[JudgedAction], played: Data) -> bool:
    """Return True if the solver knows the value of some state, so that no marks mean no mistakes."""
    if any(step.dead_end or (step.value is not None and step.kept is not None) for step in steps):
        return True
    return not steps and position_value(played.get("hint"), UNLIMITED) is not None


def verdict(
    played: Data, steps: Sequence[JudgedAction], marks: Sequence[Mark], limits: Limits | None
) -> Verdict | None:
    """Return the verdict; None for an attempt that was not lost or was broken off, and if the solver does not know.

    It is the first mistake that made success impossible, or else bad luck, or else the budget.
    """
    broken_off = played.get("broken_off") or played.get("error") or played.get("end") == "interrupted"
    if played.get("success") is not False or broken_off:
        return None
    fatal = next((mark for mark in marks if mark.dead_end or not mark.kept), None)
    if fatal:
        return Verdict("mistake", fatal.turn, fatal.action, fatal.sentence)
    slip = next((step for step in steps if step.dead_end and step.random), None)
    if slip:
        return Verdict("slip", slip.turn, slip.action, sentences.slip_sentence(slip))
    return _out_of_budget(played, steps, limits)


def _out_of_budget(played: Data, steps: Sequence[JudgedAction], limits: Limits | None) -> Verdict | None:
    last = positions(played)[-1]
    on_grid = last.board.get("kind") == "grid"
    used_up = "moves" if on_grid else "actions"
    ran_out_of = {"turns": "turns", "actions": used_up, "truncated": used_up}.get(str(played.get("end")))
    if ran_out_of is None:
        return None
    first = played.get("hint") or {}
    needed = first.get("distance") or 0
    if limits and needed > limits.total and first.get("solvable", "yes") == "yes":
        return Verdict("budget", 0, START, sentences.hopeless_sentence(int(needed), limits.total, last.board))
    hint = steps[-1].hint_after if steps else first
    sentence = sentences.unfinished_sentence(hint, last.board, ran_out_of)
    return Verdict("budget", last.turn, last.action, sentence) if sentence else None
