"""Users who are notified of an event because they started or follow its run, or take part in a discussion."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

from django.db.models import Min

from webapp.annotations.models import Comment, Mention
from webapp.notifications.models import Follow, NotificationPreference, RunEvent
from webapp.runs.models import Run
from webapp.teams.models import Membership

NOTIFIED = {RunEvent.Kind.WATCH, RunEvent.Kind.TRAPPED, RunEvent.Kind.FAILED, RunEvent.Kind.FINISHED}
"""Kinds of which a run's followers are notified, besides comments."""


class Audience:
    """Followers and readers of the runs of some events. At most six queries."""

    def __init__(self, events: Sequence[RunEvent]) -> None:
        runs = {event.run_id: event.run for event in events}
        self.follows: dict[int, dict[int, Follow]] = defaultdict(dict)
        for follow in Follow.objects.filter(run__in=runs):
            self.follows[follow.run_id][follow.user_id] = follow
        teams = {run.team_id for run in runs.values()}
        self.roles: dict[tuple[int, int], str] = {
            (place.team_id, place.user_id): place.role
            for place in Membership.objects.filter(team__in=teams, user__is_active=True)
        }
        silent = NotificationPreference.objects.filter(user_id__in={user for _, user in self.roles})
        self.without_own = set(silent.filter(own_runs=False).values_list("user_id", flat=True))
        self.without_comments = set(silent.filter(comments=False).values_list("user_id", flat=True))
        comments = [event.comment for event in events if event.comment is not None]
        self.commenters = _commenters(comments)
        self.mentioned = set(Mention.objects.filter(comment__in=comments).values_list("comment_id", "user_id"))

    def of(self, event: RunEvent) -> set[int]:
        """Users who are notified of the event."""
        if event.comment is not None:
            return self._of_comment(event.run, event.comment)
        return self._followers(event.run, event.at) if event.kind in NOTIFIED else set()

    def _of_comment(self, run: Run, comment: Comment) -> set[int]:
        """Followers, the run's author and earlier commenters; not its author, nor those it mentions."""
        first = self.commenters[comment.trajectory_id]
        earlier = {user for user, at in first.items() if at < comment.created_at and self._may_read(run, user)}
        mentioned = {user for commented, user in self.mentioned if commented == comment.pk}
        users = self._followers(run, comment.created_at) | earlier
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


def _commenters(comments: Sequence[Comment]) -> dict[int, dict[int, datetime]]:
    """The first comment of each user on each of the trajectories."""
    first: dict[int, dict[int, datetime]] = defaultdict(dict)
    by_author = Comment.objects.filter(
        trajectory__in={comment.trajectory_id for comment in comments}, author__isnull=False
    ).order_by()
    for trajectory, author, at in by_author.values_list("trajectory_id", "author_id").annotate(Min("created_at")):
        first[trajectory][author] = at
    return first
