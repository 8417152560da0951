"""Actions on annotations: each in a transaction that counts the change and notifies open pages on commit."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import F
from django.dispatch import Signal, receiver
from django.utils import timezone

from webapp.annotations.markup import mentioned_names, normal_tag
from webapp.annotations.models import (
    MAX_COMMENT_LENGTH,
    MAX_TAG_LENGTH,
    AnnotationVersion,
    Comment,
    Mention,
    Star,
    Tag,
    Tagging,
)
from webapp.core.publisher import notify_annotations
from webapp.teams.models import Membership, Removal, User
from webapp.teams.removals import UNREADABLE, do_remove, restored
from webapp.trajectories.models import Trajectory

MAX_TAGS = 20
commented = Signal()
"""Sent with a new `comment`, in the transaction that stores it."""
mentioned = Signal()
"""Sent with a `comment` and the users `added` to its mentions, in the transaction that stores them."""


class AnnotationRefused(ValueError):
    """The annotation is invalid. The message gives the reason."""


@transaction.atomic
def do_star(trajectory: Trajectory, user: User) -> None:
    """Star the trajectory. A second call changes nothing."""
    _, made = Star.objects.get_or_create(trajectory=trajectory, user=user)
    if made:
        _count_change(trajectory)


@transaction.atomic
def do_unstar(trajectory: Trajectory, user: User) -> None:
    """Remove the user's star, if there is one."""
    gone, _ = Star.objects.filter(trajectory=trajectory, user=user).delete()
    if gone:
        _count_change(trajectory)


@transaction.atomic
def do_tag(trajectory: Trajectory, user: User, text: str) -> str:
    """Tag the trajectory. Returns the normalised tag. Raises AnnotationRefused."""
    name = normal_tag(text)
    if not name:
        raise AnnotationRefused("A tag needs at least one letter or digit.")
    if len(name) > MAX_TAG_LENGTH:
        raise AnnotationRefused(f"A tag has at most {MAX_TAG_LENGTH} characters; this one has {len(name)}.")
    _lock(trajectory)
    existing = set(Tagging.objects.filter(trajectory=trajectory).values_list("tag__name", flat=True))
    if name in existing:
        return name
    if len(existing) >= MAX_TAGS:
        raise AnnotationRefused(f"An attempt carries at most {MAX_TAGS} tags. Remove one first.")
    tag, _ = Tag.objects.get_or_create(team_id=trajectory.run.team_id, name=name)
    Tagging.objects.create(trajectory=trajectory, tag=tag, author=user)
    _count_change(trajectory)
    return name


@transaction.atomic
def do_untag(trajectory: Trajectory, text: str) -> None:
    """Remove a tag. A tag that is on no trajectory is deleted from the team."""
    name, team = normal_tag(text), trajectory.run.team_id
    gone, _ = Tagging.objects.filter(trajectory=trajectory, tag__team_id=team, tag__name=name).delete()
    if gone:
        Tag.objects.filter(team_id=team, name=name, taggings__isnull=True).delete()
        _count_change(trajectory)


@transaction.atomic
def do_comment(trajectory: Trajectory, author: User, text: str, turn: int | None = None) -> Comment:
    """Comment on the trajectory or on one of its turns (0-based). Raises AnnotationRefused."""
    if turn is not None and not trajectory.turns.filter(number=turn).exists():
        raise AnnotationRefused(f"This attempt has no turn {turn + 1}.")
    comment = Comment.objects.create(trajectory=trajectory, turn=turn, author=author, text=_cleaned(text))
    _update_mentions(comment)
    commented.send(Comment, comment=comment)
    _count_change(trajectory)
    return comment


@transaction.atomic
def do_edit_comment(comment: Comment, text: str) -> Comment:
    """Replace a comment's text. New mentions are notified, dropped ones deleted. Raises AnnotationRefused."""
    comment.text, comment.edited_at = _cleaned(text), timezone.now()
    comment.save(update_fields=["text", "edited_at"])
    _update_mentions(comment)
    _count_change(comment.trajectory)
    return comment


@transaction.atomic
def do_delete_comment(comment: Comment, by: User | None = None) -> Removal | None:
    """Delete a comment with its mentions. Returns the removal that can be undone."""
    run, rows = comment.trajectory.run, Comment.objects.filter(pk=comment.pk)
    name = f"a comment on an attempt of “{run.title}”"
    removal = do_remove(rows, team=run.team, by=by, name=name, role=Membership.Role.VIEWER)
    _count_change(comment.trajectory)
    return removal


@receiver(restored, sender=Comment)
def _show_again(rows: list[Comment], user: User, **kwargs: Any) -> None:
    for comment in rows:
        if not Trajectory.with_branches.visible_to(user).filter(pk=comment.trajectory_id).exists():
            raise PermissionDenied(UNREADABLE)
        _count_change(comment.trajectory)


def _cleaned(text: str) -> str:
    cleaned = text.replace("\0", "").replace("\r\n", "\n").strip()
    if not cleaned:
        raise AnnotationRefused("The comment is empty.")
    if len(cleaned) > MAX_COMMENT_LENGTH:
        raise AnnotationRefused(
            f"A comment has at most {MAX_COMMENT_LENGTH:,} characters; this one has {len(cleaned):,}."
        )
    return cleaned


def _update_mentions(comment: Comment) -> None:
    """Make the comment's mentions match its text. Only users who may see the trajectory are mentioned."""
    names = mentioned_names(comment.text)
    people = {
        user.username.lower(): user
        for user in User.objects.filter(memberships__team_id=comment.trajectory.run.team_id, is_active=True)
        if user.username.lower() in names and user.pk != comment.author_id
    }
    readers = [
        user
        for user in people.values()
        if Trajectory.with_branches.visible_to(user).filter(pk=comment.trajectory_id).exists()
    ]
    comment.mentions.exclude(user__in=readers).delete()
    known = set(comment.mentions.values_list("user", flat=True))
    Mention.objects.bulk_create((Mention(comment=comment, user=user) for user in readers), ignore_conflicts=True)
    mentioned.send(Comment, comment=comment, added=[user for user in readers if user.pk not in known])


def _lock(trajectory: Trajectory) -> None:
    Trajectory.with_branches.select_for_update().only("pk").get(pk=trajectory.pk)


def _count_change(trajectory: Trajectory) -> None:
    """Count the change and notify the trajectory's open pages on commit."""
    change, made = AnnotationVersion.objects.get_or_create(trajectory=trajectory, defaults={"version": 1})
    if not made:
        AnnotationVersion.objects.filter(pk=change.pk).update(version=F("version") + 1)
    transaction.on_commit(lambda: notify_annotations(trajectory.slug))
