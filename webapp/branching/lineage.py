"""Lineage of branches: from a recorded attempt by one question after another, each about a branch of the one before.

A branch can be played on from like a recorded attempt: its environment starts from the recorded seeds and takes all its
actions again. Up to the turn from which it was played on, a branch is the attempt that it continues.
"""

from __future__ import annotations

from collections.abc import Sequence

from webapp.branching.models import BranchQuestion
from webapp.trajectories.branch_origin import place_text, questions_to
from webapp.trajectories.models import Trajectory

MAX_DEPTH = 5
"""Questions in a lineage that ends at a branch about which none can be asked."""
SUPERSEDED = "No policy can play on from here: a later attempt of the run replaced this one, and its weights."


def lineage(trajectory: Trajectory) -> list[BranchQuestion]:
    """Return the questions from the recorded attempt down to a branch; empty for a recorded attempt."""
    return questions_to(trajectory)


def recorded_attempt(trajectory: Trajectory) -> Trajectory:
    """Return the recorded attempt with which a branch begins, or the recorded attempt itself."""
    questions = lineage(trajectory)
    return questions[0].trajectory if questions else trajectory


def owner_of(trajectory: Trajectory, turn: int | None) -> Trajectory:
    """Return the attempt to which the position before a turn belongs: the branch, or one that it continues.

    Branches from a position that both have would be the same, and must not pass for further ones: they are asked for
    where they are. None stands for all turns.
    """
    for question in reversed(lineage(trajectory)):
        if turn is None or turn > (question.turn or 0):
            break
        trajectory = question.trajectory
    return trajectory


def lineage_problem(questions: Sequence[BranchQuestion]) -> str:
    """Return why no policy can play on from a branch with this lineage, as a sentence; empty if one can."""
    own, depth = questions[-1], len(questions)
    if questions[0].trajectory.superseded:
        return SUPERSEDED
    if own.pending:
        return "A policy can play on from a branch when all branches of its question have ended."
    for question in questions:
        if problem := _not_repeatable(question):
            return f"This branch cannot be played again: {problem}"
    if depth >= MAX_DEPTH:
        return f"This is the {depth}th branch in a row: play on from {place_text(own.trajectory)}, which it continues."
    return ""


def _not_repeatable(question: BranchQuestion) -> str:
    """Return what cannot be repeated of the branches of a question, and what to do, as the end of a sentence."""
    turn, place = (question.turn or 0) + 1, place_text(question.trajectory)
    if question.luck == "fresh":
        return f"its luck is new from turn {turn} on. Play on from {place} without new luck, and then from a branch."
    if "state" in question.change:
        return (
            f"the message that it read at turn {turn} was changed, while the environment stayed as it was. Play on "
            f"from {place} with a changed thought or answer, and then from a branch."
        )
    return ""
