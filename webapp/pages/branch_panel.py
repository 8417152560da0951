"""Panel of an attempt's questions to policies: the form, the answers by position, or why nothing can be asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from django.db.models import F

import envs
from webapp.branching.asked import AskedWrongly, refusal
from webapp.branching.models import BranchQuestion
from webapp.pages.branch_answers import QuestionRow, question_rows
from webapp.pages.branch_form import AskForm, ask_form
from webapp.runs.models import Run
from webapp.teams.access import role_in_team
from webapp.teams.models import Membership
from webapp.trajectories.models import Trajectory

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

    from webapp.teams.models import User


@dataclass(frozen=True)
class PositionRows:
    """The questions about one position; `turn` is counted from 1, None for those about all turns."""

    turn: int | None
    rows: Sequence[QuestionRow]


@dataclass(frozen=True)
class BranchPanel:
    """Context of templates/trajectories/_branches.html."""

    positions: Sequence[PositionRows]
    form: AskForm | None
    refusal: str
    writer: bool
    asked: str
    newest: str = ""

    @property
    def shown(self) -> bool:
        return bool(self.positions or self.form)

    @property
    def pending(self) -> bool:
        """Whether something changes without a reload."""
        return any(row.question.pending for position in self.positions for row in position.rows)


def branch_panel(
    user: User | AnonymousUser,
    trajectory: Trajectory,
    typed: Mapping[str, str],
    problem: AskedWrongly | None = None,
    *,
    refused: str = "",
    asked: str = "",
) -> dict[str, Any]:
    """Return the context of the panel.

    Args:
        typed: values of the form's fields.
        problem: what is wrong with them.
        refused: why the question was refused.
        asked: question that was just asked, to which the page scrolls.
    """
    role = role_in_team(user, trajectory.run.team_id)
    reason, writer = refusal(trajectory), role in Membership.WRITERS
    form = ask_form(trajectory, typed, problem, refused) if writer and not reason else None
    rows = _rows(user, trajectory, inside=role is not None)
    positions = [PositionRows(turn, list(group)) for turn, group in groupby(rows, attrgetter("turn"))]
    newest = max((row.question for row in rows), key=attrgetter("pk"), default=None)
    panel = BranchPanel(
        positions, form, reason if role is not None else "", writer, asked, newest.slug if newest else ""
    )
    return {"trajectory": trajectory, "branches": panel, "playable": trajectory.group.environment in envs.names()}


def count_newer(trajectory: Trajectory, newest: str) -> int:
    """Return the number of questions about an attempt that came after the newest one that a page shows."""
    questions = BranchQuestion.objects.filter(trajectory=trajectory)
    shown = questions.filter(slug=newest).values_list("pk", flat=True).first()
    return questions.filter(pk__gt=shown or 0).count()


def branch_row(user: User | AnonymousUser, trajectory: Trajectory, slug: str) -> dict[str, Any] | None:
    """Return the context of templates/trajectories/_branch_question.html; None if the question is gone."""
    role = role_in_team(user, trajectory.run.team_id)
    rows = _rows(user, trajectory, inside=role is not None, slug=slug)
    if not rows:
        return None
    playable = trajectory.group.environment in envs.names()
    return {"trajectory": trajectory, "row": rows[0], "writer": role in Membership.WRITERS, "playable": playable}


def _rows(user: User | AnonymousUser, trajectory: Trajectory, *, inside: bool, slug: str = "") -> list[QuestionRow]:
    found = BranchQuestion.objects.filter(trajectory=trajectory).select_related("requested_by", "weights_run")
    if slug:
        found = found.filter(slug=slug)
    questions = list(found.order_by(F("turn").asc(nulls_first=True), "-requested_at", "-pk"))
    others = BranchQuestion.objects.filter(trajectory=trajectory, weights_run__isnull=False).values("weights_run")
    titles = dict(Run.objects.visible_to(user).filter(pk__in=others).values_list("pk", "title")) if questions else {}
    return question_rows(trajectory, questions, titles=titles, inside=inside)
