"""Actions on notifications and follows; open pages are woken on commit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import transaction
from django.db.models import Subquery
from django.dispatch import receiver
from django.utils import timezone

from webapp.annotations.actions import mentioned
from webapp.annotations.models import Comment
from webapp.core.mail import mail_is_configured
from webapp.core.publisher import notify_inbox
from webapp.notifications.messages import mention_title
from webapp.notifications.models import Delivery, Follow, Notification, NotificationPreference
from webapp.runs.models import Run
from webapp.teams.models import Membership, User


def do_follow(user: User, run: Run, on: bool) -> None:
    """Follow the run from now on, or stop. For a user who already follows, the start time is kept."""
    now = timezone.now()
    follow, made = Follow.objects.get_or_create(user=user, run=run, defaults={"on": on, "since": now})
    if not made and follow.on != on:
        follow.on, follow.since = on, now
        follow.save(update_fields=["on", "since"])


def is_following(user: User, run: Run) -> bool:
    """Return True if the user is notified about the run: by choice, or because they started it. One query."""
    choice = Follow.objects.filter(user=user, run=run).values("on")[:1]
    chosen, own_runs = (
        User.objects.filter(pk=user.pk)
        .annotate(chosen=Subquery(choice))
        .values_list("chosen", "notification_preference__own_runs")
        .get()
    )
    if chosen is not None or run.author_id != user.pk:
        return bool(chosen)
    return own_runs is not False


def do_set_preferences(user: User, **chosen: bool) -> None:
    """Set the given fields of the user's NotificationPreference; others keep their values."""
    NotificationPreference.objects.update_or_create(user=user, defaults=chosen)


@transaction.atomic
def do_notify(notifications: Iterable[Notification]) -> int:
    """Store notifications that do not exist yet, and wake their users' pages.

    Returns the number of new notifications.
    """
    wanted = {(notification.user_id, notification.key): notification for notification in notifications}
    keys = {key for _, key in wanted}
    existing = set(Notification.objects.filter(key__in=keys).values_list("user_id", "key")) if keys else set()
    fresh = [notification for identity, notification in wanted.items() if identity not in existing]
    Notification.objects.bulk_create(fresh, ignore_conflicts=True)
    users = {notification.user_id for notification in fresh}
    transaction.on_commit(lambda: notify_inbox(users))
    return len(fresh)


def do_read(user: User, slug: str) -> None:
    """Mark one notification of the user as read."""
    if Notification.objects.filter(user=user, slug=slug, read_at__isnull=True).update(read_at=timezone.now()):
        notify_inbox({user.pk})


def do_read_all(user: User, *, mentions_only: bool = False) -> None:
    """Mark all entries of the user as read, or only mentions."""
    entries = Notification.objects.filter(user=user).unread()
    (entries.mentions() if mentions_only else entries).update(read_at=timezone.now())
    transaction.on_commit(lambda: notify_inbox({user.pk}))


def do_alert_team(run: Run | None, team_id: int, *, only: User | None, alert: Notification) -> int:
    """Place an alert in the inboxes of the team's members who may read its run, or of one member.

    `alert` is a draft without a user. Members who switched off alerts of rules are left out. Returns the number of
    users who have it now.
    """
    users = User.objects.filter(memberships__team_id=team_id, is_active=True)
    users = users.exclude(notification_preference__team_alerts=False)
    if only is not None:
        users = users.filter(pk=only.pk)
    if run is not None:
        roles = Membership.objects.filter(team=run.team_id).values_list("user", "role")
        users = users.filter(pk__in=find_readers(run, roles))
    ids = list(users.values_list("pk", flat=True))
    copied = {name: getattr(alert, name) for name in ("kind", "key", "title", "message", "path")}
    do_notify(Notification(user_id=user, run=run, **copied) for user in ids)
    return len(ids)


def find_readers(run: Run, roles: Iterable[tuple[int, str]]) -> set[int]:
    """Return the members, given with their roles, who may read the run: all, or a private run's author and admins."""
    private = run.visibility == Run.Visibility.PRIVATE
    return {user for user, role in roles if not private or user == run.author_id or role == Membership.Role.ADMIN}


def mention_entry(comment: Comment, **fields: Any) -> Notification:
    """Return the inbox entry for a mention; `fields` contains its user."""
    return Notification(
        kind=Notification.Kind.MENTION,
        run=comment.trajectory.run,
        comment=comment,
        key=f"mention:{comment.slug}",
        title=mention_title(comment)[:200],
        path=comment.address,
        **fields,
    )


@receiver(mentioned)
def _notify_mentioned(comment: Comment, added: list[User], **kwargs: Any) -> None:
    """Make inbox entries match the mentions in the comment, and queue e-mails about the new mentions."""
    entries = Notification.objects.mentions().filter(comment=comment)
    entries.exclude(user__in=comment.mentions.values("user")).delete()
    if not added:
        return
    do_notify(mention_entry(comment, user=user) for user in added)
    if mail_is_configured():
        new = entries.filter(user__in=added).exclude(user__email="")
        Delivery.objects.bulk_create(
            Delivery(mention=entry, event=Delivery.MENTION, key=f"mention:{entry.pk}") for entry in new
        )
