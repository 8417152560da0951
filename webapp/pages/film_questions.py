"""Asking checkpoints of a run to play an attempt's initial state again, for a film where no evaluation made one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from webapp.branching.actions import do_ask
from webapp.branching.asked import Asked, refusal
from webapp.branching.models import BranchQuestion
from webapp.core import formatting
from webapp.explorer.filmstrip import choose_frames
from webapp.runs.actions import RequestRefused
from webapp.teams.access import role_in_team
from webapp.teams.models import Membership, User
from webapp.trajectories.models import Trajectory
from webapp.trajectories.token_computation import sampled_after

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

MAX_CHECKPOINTS = 8
"""Maximum number of checkpoints that play at one request."""


@dataclass(frozen=True)
class FilmQuestions:
    """The questions that make a film of an attempt: to checkpoints that play its initial state.

    Attributes:
        offered: checkpoints that a button asks; empty if nobody may, or none is left.
        pending: questions that wait or are being answered.
        failed: why one of them failed.
    """

    offered: list[int]
    pending: int
    failed: str

    @property
    def shown(self) -> bool:
        return bool(self.offered or self.pending or self.failed)

    @property
    def names(self) -> str:
        """The offered checkpoints, as in “The initial policy, iterations 10 and 20”."""
        trained = [formatting.whole(number) for number in self.offered if number]
        parts = ["the initial policy"] if 0 in self.offered else []
        if trained:
            parts.append(f"iteration{'s' if len(trained) > 1 else ''} {formatting.join_items(trained)}")
        text = ", ".join(parts)
        return f"{text[:1].upper()}{text[1:]}"


def film_questions(user: User | AnonymousUser, trajectory: Trajectory) -> FilmQuestions:
    """Return the state of the film's questions, and what may be asked by that user."""
    asked = list(_questions(trajectory))
    pending = sum(question.pending for question in asked)
    failed = next((question.error for question in asked if question.state == BranchQuestion.State.FAILED), "")
    may_ask = role_in_team(user, trajectory.run.team_id) in Membership.WRITERS and not refusal(trajectory)
    return FilmQuestions(_missing(trajectory, asked) if may_ask and not pending else [], pending, failed)


def do_ask_checkpoints(trajectory: Trajectory, user: User) -> int:
    """Ask the offered checkpoints. Returns how many are asked. Raises RequestRefused if the first one is refused."""
    count = 0
    for checkpoint in _missing(trajectory, list(_questions(trajectory))):
        try:
            do_ask(trajectory, Asked(turn=0, samples=1, checkpoint=checkpoint), user)
        except RequestRefused:
            if not count:
                raise
            break  # the team has enough questions for now; the button asks the others later
        count += 1
    return count


def _questions(trajectory: Trajectory) -> list[BranchQuestion]:
    asked = BranchQuestion.objects.filter(trajectory=trajectory, kind=BranchQuestion.Kind.BRANCH, turn=0, change={})
    return list(asked.filter(luck="recorded", weights_run=None).order_by("pk"))


def _missing(trajectory: Trajectory, asked: list[BranchQuestion]) -> list[int]:
    """Return at most MAX_CHECKPOINTS kept checkpoints, evenly spread, that have not played it; 0: before training."""
    kept = sorted({0, *trajectory.run.checkpoints.values_list("iteration", flat=True)})
    spread = [kept[index] for index in choose_frames([False] * len(kept), MAX_CHECKPOINTS)]
    done = {question.used_checkpoint for question in asked} | {question.checkpoint for question in asked}
    return [checkpoint for checkpoint in spread if checkpoint not in done | {sampled_after(trajectory)}]
