"""Detection of what users are notified about, from the tables. Repeatable: the same event always has the same key.

No notification is lost if a process dies between an event and its detection.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Min
from django.urls import reverse
from django.utils import timezone

from webapp.annotations.models import Comment
from webapp.notifications.actions import do_forget_notifications, do_notify
from webapp.notifications.models import Follow, Notification, NotificationPreference
from webapp.runs.models import Alarm, Run
from webapp.teams.models import Membership

RECENT = timedelta(minutes=15)
LOOK_BACK = timedelta(days=1)
FULL_INTERVAL = 600.0
MAX_MESSAGE_LENGTH = 600
Kind = Notification.Kind


@dataclass(frozen=True)
class RunEvent:
    """An event of a run that its followers are notified about."""

    kind: str
    run: Run
    key: str
    at: datetime
    message: str


class NotificationDetector:
    """Repeated detection: usually of the last minutes, sometimes of a day, for events that arrive late."""

    def __init__(self) -> None:
        self._last_full = -FULL_INTERVAL

    def detect(self) -> None:
        full = time.monotonic() - self._last_full >= FULL_INTERVAL
        now = timezone.now()
        do_detect(now - (LOOK_BACK if full else RECENT))
        if full:
            do_forget_notifications(now)
            self._last_full = time.monotonic()


def do_detect(after: datetime) -> int:
    """Store the missing notifications of events after `after`. Returns their number."""
    events = [*_ends(after), *_alarms(after)]
    recent = Comment.objects.filter(created_at__gte=after).select_related("author", "trajectory__run")
    comments = list(recent.prefetch_related("mentions").order_by("pk"))
    runs = {event.run.pk: event.run for event in events} | {
        one.trajectory.run_id: one.trajectory.run for one in comments
    }
    if not runs:
        return 0
    audience = Audience(runs.values())
    found = [_of_event(event, user) for event in events for user in audience.of_event(event)]
    commenters = _commenters(comments)
    for comment in comments:
        users = audience.of_comment(comment, commenters[comment.trajectory_id])
        found += [_of_comment(comment, user) for user in users]
    return do_notify(found)


class Audience:
    """Followers and readers of some runs. Four queries."""

    def __init__(self, runs: Iterable[Run]) -> None:
        runs = list(runs)
        self.follows: dict[int, dict[int, Follow]] = defaultdict(dict)
        for follow in Follow.objects.filter(run__in=runs):
            self.follows[follow.run_id][follow.user_id] = follow
        self.roles: dict[tuple[int, int], str] = {
            (place.team_id, place.user_id): place.role
            for place in Membership.objects.filter(team__in={run.team_id for run in runs}, user__is_active=True)
        }
        users = {user for _, user in self.roles}
        silent = NotificationPreference.objects.filter(user_id__in=users)
        self.without_own = set(silent.filter(own_runs=False).values_list("user_id", flat=True))
        self.without_comments = set(silent.filter(comments=False).values_list("user_id", flat=True))

    def of_event(self, event: RunEvent) -> set[int]:
        """Users who are notified about the event."""
        return self._followers(event.run, event.at)

    def of_comment(self, comment: Comment, commenters: dict[int, datetime]) -> set[int]:
        """Followers, the run's author and earlier commenters; not its author, nor those it mentions."""
        run = comment.trajectory.run
        earlier = {user for user, first in commenters.items() if first < comment.created_at}
        mentioned = {mention.user_id for mention in comment.mentions.all()}
        users = self._followers(run, comment.created_at) | {user for user in earlier if self._may_read(run, user)}
        return users - self.without_comments - mentioned - {comment.author_id or 0}

    def _followers(self, run: Run, at: datetime) -> set[int]:
        follows = self.follows[run.pk]
        users = {user for user, follow in follows.items() if follow.on and follow.since <= at}
        author = run.author_id
        if author is not None and author not in follows and author not in self.without_own:
            users.add(author)
        return {user for user in users if self._may_read(run, user)}

    def _may_read(self, run: Run, user: int) -> bool:
        role = self.roles.get((run.team_id, user))
        private = run.visibility == Run.Visibility.PRIVATE
        return role is not None and (not private or user == run.author_id or role == Membership.Role.ADMIN)


def _ends(after: datetime) -> Iterator[RunEvent]:
    for run in Run.objects.completed_after(after).defer("config", "log_tail", "journal_error"):
        assert run.ended_at is not None
        kind = Kind.FAILED if run.state == Run.State.FAILED else Kind.FINISHED
        place = f"After iteration {run.iteration} of {run.iterations}." if run.iterations else ""
        yield RunEvent(kind, run, run.end_key, run.ended_at, f"{place} {run.end_text}".strip())


def _alarms(after: datetime) -> Iterator[RunEvent]:
    alarms = Alarm.objects.filter(time__gte=after, state__in=(Kind.WATCH, Kind.TRAPPED)).select_related("run")
    for alarm in alarms.defer("run__config", "run__log_tail", "run__journal_error").order_by("seq", "pk"):
        key, words = alarm.event_key, f"At iteration {alarm.iteration}. {alarm.message}"
        yield RunEvent(alarm.state, alarm.run, key, alarm.time, words)


def _commenters(comments: Iterable[Comment]) -> dict[int, dict[int, datetime]]:
    """The first comment of each user on each of the trajectories."""
    first: dict[int, dict[int, datetime]] = defaultdict(dict)
    trajectories = {comment.trajectory_id for comment in comments}
    if not trajectories:
        return first
    by_author = Comment.objects.filter(trajectory__in=trajectories, author__isnull=False).order_by()
    for trajectory, author, at in by_author.values_list("trajectory_id", "author_id").annotate(Min("created_at")):
        first[trajectory][author] = at
    return first


def _of_event(event: RunEvent, user: int) -> Notification:
    return Notification(
        user_id=user,
        kind=event.kind,
        run=event.run,
        key=event.key,
        title=Kind(event.kind).label,
        message=event.message[:MAX_MESSAGE_LENGTH],
        path=reverse("run", args=[event.run.slug]),
        created_at=timezone.now(),
    )


def _of_comment(comment: Comment, user: int) -> Notification:
    name = comment.author.get_username() if comment.author else "A former member"
    return Notification(
        user_id=user,
        kind=Kind.COMMENT,
        run=comment.trajectory.run,
        comment=comment,
        key=f"comment:{comment.slug}",
        title=f"Comment by {name}"[:200],
        message="",  # the comment's own text is shown, which may be edited
        path=comment.address,
    )
