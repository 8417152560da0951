"""Query conditions on trajectories by their annotations, for lists, filters and retention."""

from __future__ import annotations

from django.db.models import Exists, OuterRef, Q

from webapp.annotations.markup import normal_tag
from webapp.annotations.models import Comment, Star, Tagging
from webapp.saved_views.models import Label


def starred() -> Q:
    """Return a condition on trajectories with a star."""
    return Q(Exists(Star.objects.filter(trajectory=OuterRef("pk"))))


def tagged(name: str = "") -> Q:
    """Return a condition on trajectories with this tag, ignoring case and spacing; without a name: with any tag."""
    taggings = Tagging.objects.filter(trajectory=OuterRef("pk"))
    return Q(Exists(taggings.filter(tag__name=normal_tag(name)) if name else taggings))


def commented() -> Q:
    """Return a condition on trajectories with a comment."""
    return Q(Exists(Comment.objects.filter(trajectory=OuterRef("pk"))))


def labelled() -> Q:
    """Return a condition on trajectories with a label of a saved view or scanner."""
    return Q(Exists(Label.objects.filter(trajectory=OuterRef("pk"))))


def is_annotated() -> Q:
    """Return a condition on trajectories with a star, a tag, a comment or a label."""
    return starred() | tagged() | commented() | labelled()
