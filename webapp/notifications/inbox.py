"""The inbox of a user: entries about events and mentions, newest first, and the number of unread ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import SimpleLazyObject

from webapp.core.formatting import beginning
from webapp.notifications.models import Notification
from webapp.teams.models import User

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

MAX_EXCERPT_LENGTH = 280
MAX_NEW = 5
"""Entries in one message to an open page; the count says how many there are."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class InboxEntry:
    """A line of the inbox. `href` marks it as read and redirects to its page."""

    kind: str
    slug: str
    title: str
    run: str
    message: str
    href: str
    at: datetime
    unread: bool

    @property
    def excerpt(self) -> str:
        """Return the beginning of the message, in one line."""
        return beginning(self.message, MAX_EXCERPT_LENGTH)

    def as_data(self) -> dict[str, Any]:
        """Return the entry for open pages."""
        fields = {name: getattr(self, name) for name in ("kind", "slug", "title", "run", "href")}
        return fields | {"message": self.excerpt, "at": microseconds(self.at)}


def entries(
    user: User, *, before: datetime | None = None, after: datetime | None = None, show: str = "all", limit: int
) -> list[InboxEntry]:
    """Return the newest entries within the time limits. One query.

    Args:
        show: "all", "unread" or "mentions".
    """
    notifications = Notification.objects.of(user).select_related("run", "comment")
    notifications = notifications.defer("run__config", "run__log_tail", "run__summary")
    if show == "unread":
        notifications = notifications.unread()
    elif show == "mentions":
        notifications = notifications.mentions()
    if before is not None:
        notifications = notifications.filter(created_at__lt=before)
    if after is not None:
        notifications = notifications.filter(created_at__gt=after)
    return [_make_entry(notification) for notification in notifications[:limit]]


def _make_entry(notification: Notification) -> InboxEntry:
    text = notification.comment.text if notification.comment else notification.message
    return InboxEntry(
        kind=notification.kind,
        slug=notification.slug,
        title=notification.title,
        run=notification.run.title if notification.run else "",
        message=text,
        href=reverse("inbox-open", args=[notification.slug]),
        at=notification.created_at,
        unread=notification.read_at is None,
    )


def unread_count(user: User | AnonymousUser) -> int:
    """Return the number of unread entries. One query."""
    return Notification.objects.of(user).unread().count()


def unread_inbox(request: HttpRequest) -> dict[str, object]:
    """Context processor: unread entries of the inbox, counted only where a template shows them."""
    return {"unread_inbox": SimpleLazyObject(lambda: unread_count(request.user))}


@dataclass(frozen=True)
class InboxUpdate:
    """Update for an open page: the count, and the entries after its cursor."""

    unread: int
    entries: Sequence[InboxEntry]


def update_since(user: User, cursor: int) -> InboxUpdate:
    """Return the count, and unread entries after the cursor."""
    return InboxUpdate(unread_count(user), entries(user, after=from_microseconds(cursor), show="unread", limit=MAX_NEW))


def microseconds(moment: datetime) -> int:
    """Return a time as a cursor."""
    return (moment - EPOCH) // timedelta(microseconds=1)


def from_microseconds(cursor: int) -> datetime:
    """Return the time of a cursor; the earliest or latest time if it is out of range."""
    try:
        return EPOCH + timedelta(microseconds=cursor)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)
