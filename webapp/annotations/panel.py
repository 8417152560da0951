"""Template context of the annotations panel."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from django.db.models import Exists, OuterRef, Prefetch
from django.utils import timezone

from webapp.annotations.access import may_change
from webapp.annotations.markup import comment_html
from webapp.annotations.models import MAX_COMMENT_LENGTH, MAX_TAG_LENGTH, AnnotationVersion, Comment, Mention, Star, Tag
from webapp.teams.models import Membership, Removal, User
from webapp.trajectories.models import Trajectory

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

MAX_SUGGESTED_TAGS = 200


@dataclass
class Thread:
    """The comments on one turn (0-based), or on the whole trajectory."""

    turn: int | None
    comments: list[Comment] = field(default_factory=list)


def panel(user: User | AnonymousUser, trajectory: Trajectory, role: Membership.Role | None) -> dict[str, Any]:
    """Return the context of templates/annotations/_panel.html; `annotations` is None for users outside the team."""
    return {"annotations": None if role is None else panel_data(user, trajectory, role)}


def panel_data(user: User | AnonymousUser, trajectory: Trajectory, role: Membership.Role) -> dict[str, Any]:
    """Return stars, tags and comments, and the user's permissions on them."""
    version = AnnotationVersion.objects.filter(trajectory=trajectory).values_list("version", flat=True).first() or 0
    stars = [star.user.username for star in Star.objects.filter(trajectory=trajectory).select_related("user")]
    mine = user.get_username() in stars
    here = Exists(Tag.objects.filter(pk=OuterRef("pk"), taggings__trajectory=trajectory))
    known = Tag.objects.known_to(user).filter(team_id=trajectory.run.team_id).annotate(here=here)
    vocabulary = list(known.values_list("name", "here")[:MAX_SUGGESTED_TAGS])
    threads = _threads(user, trajectory, role)
    return {
        "trajectory": trajectory,
        "version": version,
        "stars": stars,
        "mine": mine,
        "tags": [name for name, is_here in vocabulary if is_here],
        "vocabulary": [name for name, is_here in vocabulary if not is_here],
        "threads": threads,
        "comment_count": sum(len(thread.comments) for thread in threads),
        "turns": range(1, trajectory.turn_count + 1),
        "writer": role in Membership.WRITERS,
        "deleted": _deleted(user, trajectory),
        "longest_tag": MAX_TAG_LENGTH,
        "longest_comment": MAX_COMMENT_LENGTH,
    }


def _deleted(user: User | AnonymousUser, trajectory: Trajectory) -> Removal | None:
    """Return the removal of the comment that the user deleted last, if it was on this trajectory and can be undone."""
    label = Comment._meta.label
    last = Removal.objects.filter(
        author_id=user.pk, until__gt=timezone.now(), undone_at=None, rows__has_key=label
    ).first()
    here = last and Comment._base_manager.filter(pk__in=last.rows[label], trajectory=trajectory).exists()
    return last if here else None


def _threads(user: User | AnonymousUser, trajectory: Trajectory, role: Membership.Role) -> list[Thread]:
    mentions = Prefetch("mentions", Mention.objects.select_related("user"))
    threads: dict[int | None, Thread] = {}
    for comment in trajectory.comments.select_related("author").prefetch_related(mentions):
        render_comment(comment)
        comment.changeable = may_change(user, role, comment)  # type: ignore[attr-defined]
        threads.setdefault(comment.turn, Thread(comment.turn)).comments.append(comment)
    return sorted(threads.values(), key=lambda thread: -1 if thread.turn is None else thread.turn)


def render_comment(comment: Comment) -> None:
    """Set the comment's safe HTML, with its mentions marked."""
    people = [mention.user.username for mention in comment.mentions.all()]
    comment.html = comment_html(comment.text, people)  # type: ignore[attr-defined]
