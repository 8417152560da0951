"""Access to studies: members of the team read them, writers steer and share them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db.models import Q
from django.http import Http404

from webapp.runs.models import Run, readable_by
from webapp.studies.models import Study, StudyRun
from webapp.teams.access import require_writer, role_in_team
from webapp.teams.models import User

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

MISSING = "This study does not exist, or it belongs to a team you are not in."


def get_study(user: User | AnonymousUser, slug: str) -> Study:
    """Return the study of that slug if the user may read it, with its team and author. Raises Http404."""
    study = Study.objects.visible_to(user).select_related("team", "author").filter(slug=slug).first()
    if study is None:
        raise Http404(MISSING)
    return study


def get_study_to_steer(user: User | AnonymousUser, slug: str) -> Study:
    """Return the study, to change it. Raises Http404 for outsiders, PermissionDenied for viewers."""
    study = get_study(user, slug)
    if role_in_team(user, study.team_id) is None:
        raise Http404(MISSING)
    require_writer(user, study.team_id)
    return study


def find_study_run(user: User | AnonymousUser, run: Run) -> StudyRun | None:
    """Return the run's arm and seed in its study; None if it is in no study that the user may read. One query."""
    studies = Study.objects.visible_to(user).values("pk")
    return StudyRun.objects.select_related("arm__study").filter(run=run, arm__study__in=studies).first()


def counted(user: User | AnonymousUser) -> Q:
    """Return a condition on the runs of a study that its reader may count: private runs only if they may read them."""
    return ~Q(visibility=Run.Visibility.PRIVATE) | readable_by(user)
