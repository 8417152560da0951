"""Every change of annotations: in a transaction, counted, told to open pages on commit. Who may is access.py's."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from webapp.annotations.markup import mentioned_names, normal_tag
from webapp.annotations.models import (
    MAX_COMMENT_LENGTH,
    MAX_TAG_LENGTH,
    Change,
    Comment,
    Mention,
    Star,
    Tag,
    Tagging,
    Wish,
)
from webapp.core.publisher import notify_annotations
from webapp.teams.models import User
from webapp.trajectories.models import Trajectory

TAGS_PER_TRAJECTORY = 20


class AnnotationRefused(ValueError):
    """This cannot be stored. The message says why, in words."""


@transaction.atomic
def do_star(trajectory: Trajectory, user: User) -> None:
    """Star it; a second time changes nothing."""
    _, made = Star.objects.get_or_create(trajectory=trajectory, user=user)
    if made:
        _changed(trajectory)


@transaction.atomic
def do_unstar(trajectory: Trajectory, user: User) -> None:
    """Take the user's star away; without one nothing changes."""
    gone, _ = Star.objects.filter(trajectory=trajectory, user=user).delete()
    if gone:
        _changed(trajectory)


@transaction.atomic
def do_tag(trajectory: Trajectory, user: User, text: str) -> str:
    """Put a tag on it, whatever its spelling. Returns the tag's one spelling. Raises Refused."""
    name = normal_tag(text)
    if not name:
        raise AnnotationRefused("A tag needs at least one letter or digit.")
    if len(name) > MAX_TAG_LENGTH:
        raise AnnotationRefused(f"A tag has at most {MAX_TAG_LENGTH} characters; this one has {len(name)}.")
    _lock(trajectory)
    there = set(Tagging.objects.filter(trajectory=trajectory).values_list("tag__name", flat=True))
    if name in there:
        return name
    if len(there) >= TAGS_PER_TRAJECTORY:
        raise AnnotationRefused(f"A trajectory carries at most {TAGS_PER_TRAJECTORY} tags. Take one away first.")
    tag, _ = Tag.objects.get_or_create(team_id=trajectory.run.team_id, name=name)
    Tagging.objects.create(trajectory=trajectory, tag=tag, author=user)
    _changed(trajectory)
    return name


@transaction.atomic
def do_untag(trajectory: Trajectory, text: str) -> None:
    """Take a tag away. A word that is on no trajectory leaves the team's vocabulary."""
    name, team = normal_tag(text), trajectory.run.team_id
    gone, _ = Tagging.objects.filter(trajectory=trajectory, tag__team_id=team, tag__name=name).delete()
    if gone:
        Tag.objects.filter(team_id=team, name=name, taggings__isnull=True).delete()
        _changed(trajectory)


@transaction.atomic
def do_comment(trajectory: Trajectory, author: User, text: str, turn: int | None = None) -> Comment:
    """Say something about it, or about one of its turns (0-based). Raises Refused."""
    if turn is not None and not trajectory.turns.filter(number=turn).exists():
        raise AnnotationRefused(f"This trajectory has no turn {turn + 1}.")
    comment = Comment.objects.create(trajectory=trajectory, turn=turn, author=author, text=_sound(text))
    _mention(comment)
    _changed(trajectory)
    return comment


@transaction.atomic
def do_edit_comment(comment: Comment, text: str) -> Comment:
    """Other words for a comment. People it names newly are told; those it names no longer are not. Raises Refused."""
    comment.text, comment.edited_at = _sound(text), timezone.now()
    comment.save(update_fields=["text", "edited_at"])
    _mention(comment)
    _changed(comment.trajectory)
    return comment


@transaction.atomic
def do_delete_comment(comment: Comment) -> None:
    """Take a comment away, with its mentions."""
    trajectory = comment.trajectory
    comment.delete()
    _changed(trajectory)


def do_read_mentions(user: User, slug: str | None = None) -> int:
    """Note that the user read one mention, or all of them. Returns how many were unread. Due e-mails are not sent."""
    found = Mention.objects.filter(user=user, read_at__isnull=True)
    if slug is not None:
        found = found.filter(slug=slug)
    return found.update(read_at=timezone.now(), mail_at=None)


def do_set_mention_mail(user: User, mail: bool) -> None:
    """Whether mentions are e-mailed from now on."""
    Wish.objects.update_or_create(user=user, defaults={"mail": mail})
    if not mail:
        Mention.objects.filter(user=user, mail_at__isnull=False).update(mail_at=None)


def do_claim_mail(mention: Mention, now: datetime, patience: timedelta) -> bool:
    """Take the e-mail if it is still due, for `patience`. Of two who ask, one gets it."""
    due = Mention.objects.filter(pk=mention.pk, mail_at=mention.mail_at, mail_at__lte=now)
    return bool(due.update(mail_at=now + patience, mail_tries=F("mail_tries") + 1))


def do_finish_mail(mention: Mention) -> None:
    """The e-mail is out, or given up."""
    Mention.objects.filter(pk=mention.pk).update(mail_at=None)


def _sound(text: str) -> str:
    cleaned = text.replace("\0", "").replace("\r\n", "\n").strip()
    if not cleaned:
        raise AnnotationRefused("The comment is empty.")
    if len(cleaned) > MAX_COMMENT_LENGTH:
        raise AnnotationRefused(
            f"A comment has at most {MAX_COMMENT_LENGTH:,} characters; this one has {len(cleaned):,}."
        )
    return cleaned


def _mention(comment: Comment) -> None:
    """Bring the comment's mentions in step with its text. Who may not see the trajectory is not told of it."""
    names = mentioned_names(comment.text)
    people = {
        user.username.lower(): user
        for user in User.objects.filter(memberships__team_id=comment.trajectory.run.team_id, is_active=True)
        if user.username.lower() in names and user.pk != comment.author_id
    }
    seeing = [
        user
        for user in people.values()
        if Trajectory.objects.visible_to(user).filter(pk=comment.trajectory_id).exists()
    ]
    comment.mentions.exclude(user__in=seeing).delete()
    silent = set(Wish.objects.filter(user__in=seeing, mail=False).values_list("user_id", flat=True))
    now = timezone.now()
    Mention.objects.bulk_create(
        (
            Mention(comment=comment, user=user, mail_at=now if user.email and user.pk not in silent else None)
            for user in seeing
        ),
        ignore_conflicts=True,
    )


def _lock(trajectory: Trajectory) -> None:
    Trajectory.objects.select_for_update().only("pk").get(pk=trajectory.pk)


def _changed(trajectory: Trajectory) -> None:
    """Count the change and tell whoever looks at the trajectory once it is committed."""
    change, made = Change.objects.get_or_create(trajectory=trajectory, defaults={"version": 1})
    if not made:
        Change.objects.filter(pk=change.pk).update(version=F("version") + 1)
    transaction.on_commit(lambda: notify_annotations(trajectory.slug))
