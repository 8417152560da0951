"""Conditions on trajectories for lists, filters and retention: starred, tagged, commented, annotated at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db.models import Exists, OuterRef, Q, QuerySet

from webapp.annotations.markup import normal_tag
from webapp.annotations.models import Comment, Star, Tagging
from webapp.teams.models import User
from webapp.trajectories.models import Trajectory

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser


def starred_by(user: User | AnonymousUser) -> Q:
    """Condition on trajectories: this person starred it."""
    return Q(Exists(Star.objects.filter(trajectory=OuterRef("pk"), user_id=user.pk or 0)))


def starred() -> Q:
    """Condition on trajectories: somebody starred it."""
    return Q(Exists(Star.objects.filter(trajectory=OuterRef("pk"))))


def tagged(name: str = "") -> Q:
    """Condition on trajectories: it has this tag, however it is spelled; without a name: any tag."""
    found = Tagging.objects.filter(trajectory=OuterRef("pk"))
    return Q(Exists(found.filter(tag__name=normal_tag(name)) if name else found))


def commented() -> Q:
    """Condition on trajectories: somebody said something about it."""
    return Q(Exists(Comment.objects.filter(trajectory=OuterRef("pk"))))


def is_annotated() -> Q:
    """Condition on trajectories: it carries a star, a tag or a comment."""
    return starred() | tagged() | commented()


def annotated() -> QuerySet[Trajectory]:
    """Everything that somebody marked: never thinned, never deleted by a resumed run."""
    return Trajectory.objects.filter(is_annotated())
