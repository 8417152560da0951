"""Users who are notified of an event because they started or follow its run, or take part in a discussion."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

from django.db.models import Min

from webapp.annotations.models import Comment, Mention
from webapp.notifications.actions import find_readers
from webapp.notifications.models import Follow, NotificationPreference, Rule, RunEvent
from webapp.runs.models import Run
from webapp.teams.models import Membership

NOTIFIED = {
    Rule.Event.WATCH,
    Rule.Event.TRAPPED,
    Rule.Event.SICK,
    Rule.Event.SHARE,
    Rule.Event.FAILED,
    Rule.Event.FINISHED,
    RunEvent.SOLVED,
}
"""Kinds of event, in addition to comments, that the followers of a run are notified of."""


class Audience:
    """Followers and readers of the runs of some events. At most six queries."""

    def __init__(self, events: Sequence[RunEvent]) -> None:
        runs = {event.run_id: event.run for event in events}
        self.follows: dict[int, dict[int, Follow]] = defaultdict(dict)
        for follow in Follow.objects.filter(run__in=runs):
            self.follows[follow.run_id][follow.user_id] = follow
        roles: dict[int, list[tuple[int, str]]] = defaultdict(list)
        members = Membership.objects.filter(team__in={run.team_id for run in runs.values()}, user__is_active=True)
        for team, user, role in members.values_list("team", "user", "role"):
            roles[team].append((user, role))
        self.readers = {run.pk: find_readers(run, roles[run.team_id]) for run in runs.values()}
        silent = NotificationPreference.objects.filter(user__in=set().union(*self.readers.values()))
        self.without_own = set(silent.filter(own_runs=False).values_list("user_id", flat=True))
        self.without_comments = set(silent.filter(comments=False).values_list("user_id", flat=True))
        comments = [event.comment for event in events if event.comment is not None]
        self.commenters = _commenters(comments)
        self.mentioned = set(Mention.objects.filter(comment__in=comments).values_list("comment_id", "user_id"))

    def of(self, event: RunEvent) -> set[int]:
        """Return the users who are notified of the event."""
        if event.comment is not None:
            return self._of_comment(event.run, event.comment) & self.readers[event.run_id]
        return self._followers(event.run, event.at) & self.readers[event.run_id] if event.kind in NOTIFIED else set()

    def _of_comment(self, run: Run, comment: Comment) -> set[int]:
        """Return followers, the run's author and earlier commenters, without the author and mentioned users."""
        earlier = {user for user, at in self.commenters[comment.trajectory_id].items() if at < comment.created_at}
        mentioned = {user for commented, user in self.mentioned if commented == comment.pk}
        users = self._followers(run, comment.created_at) | earlier
        return users - self.without_comments - mentioned - {comment.author_id or 0}

    def _followers(self, run: Run, at: datetime) -> set[int]:
        follows = self.follows[run.pk]
        users = {user for user, follow in follows.items() if follow.on and follow.since <= at}
        if run.author_id is not None and run.author_id not in follows and run.author_id not in self.without_own:
            users.add(run.author_id)
        return users


def _commenters(comments: Sequence[Comment]) -> dict[int, dict[int, datetime]]:
    """Return when each user first commented on each of the trajectories."""
    first: dict[int, dict[int, datetime]] = defaultdict(dict)
    by_author = Comment.objects.filter(
        trajectory__in={comment.trajectory_id for comment in comments}, author__isnull=False
    ).order_by()
    for trajectory, author, at in by_author.values_list("trajectory_id", "author_id").annotate(Min("created_at")):
        first[trajectory][author] = at
    return first
