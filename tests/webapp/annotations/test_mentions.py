"""Mentions: notified users, lists, and the unread count."""

from __future__ import annotations

from pytest_django import DjangoAssertNumQueries

from tests.webapp.annotations.conftest import Member
from tests.webapp.conftest import People
from tests.webapp.fragments import contains
from tests.webapp.page_requests import Visitors, who
from webapp.annotations.actions import do_comment, do_delete_comment, do_edit_comment
from webapp.annotations.models import Mention
from webapp.notifications.inbox import unread_count
from webapp.notifications.models import Notification
from webapp.runs.models import Run
from webapp.teams.models import Membership
from webapp.trajectories.models import Trajectory

__all__ = ["who"]


def test_members_are_notified_and_outsiders_and_the_author_are_not(
    trajectory: Trajectory, people: People, member: Member
) -> None:
    do_comment(trajectory, people.owner, "@LINUS @mallory @ada @nobody look, @linus")
    assert [mention.user for mention in Mention.objects.all()] == [member.user]


def test_a_private_trajectory_notifies_only_users_with_access(
    trajectory: Trajectory, people: People, member: Member
) -> None:
    Run.objects.filter(pk=trajectory.run_id).update(visibility=Run.Visibility.PRIVATE)
    trajectory.refresh_from_db()
    do_comment(trajectory, people.owner, "@linus look")
    assert not Mention.objects.exists()


def test_an_edit_notifies_newly_mentioned_users_once(trajectory: Trajectory, people: People, member: Member) -> None:
    comment = do_comment(trajectory, people.owner, "@linus look")
    first = Mention.objects.get()
    do_edit_comment(comment, "@linus @grace look")
    assert {mention.user for mention in Mention.objects.all()} == {member.user, people.viewer}
    assert Mention.objects.get(user=member.user).pk == first.pk
    do_edit_comment(comment, "@grace look")
    assert Mention.objects.get().user == people.viewer
    assert (unread_count(member.user), unread_count(people.viewer)) == (0, 1)
    do_delete_comment(comment)
    assert unread_count(people.viewer) == 0


def test_the_navigation_counts_unread_mentions_and_opening_marks_as_read(
    trajectory: Trajectory, people: People, member: Member, who: Visitors
) -> None:
    first = do_comment(trajectory, people.owner, "@linus one", 0)
    do_comment(trajectory, people.owner, "@linus two <b>")
    page = member.client.get("/inbox?show=mentions").content.decode()
    assert contains(page, '<b class="unread">2<')
    assert "two &lt;b&gt;" in page
    assert "ada mentioned you on turn 1 of " in page
    mention = Notification.objects.mentions().get(comment=first)
    assert who.viewer.get(f"/mentions/{mention.slug}").status_code == 404
    answer = member.client.get(f"/mentions/{mention.slug}")
    assert answer.headers["Location"] == f"/t/{trajectory.slug}?turn=1#comment-{first.slug}"
    assert contains(member.client.get("/environments").content.decode(), '<b class="unread">1<')
    answer = member.client.post("/inbox/read", {"show": "mentions"})
    assert 'class="unread"' not in member.client.get(answer.headers["Location"]).content.decode()


def test_members_see_their_own_mentions_only(
    trajectory: Trajectory, people: People, member: Member, who: Visitors
) -> None:
    do_comment(trajectory, people.owner, "@linus for your eyes")
    assert "for your eyes" in member.client.get("/inbox?show=mentions").content.decode()
    for client in (who.owner, who.viewer, who.outsider):
        assert "for your eyes" not in client.get("/inbox?show=mentions").content.decode()
    Membership.objects.filter(user=member.user).delete()
    assert "for your eyes" not in member.client.get("/inbox?show=mentions").content.decode()


def test_the_unread_count_takes_one_query(
    trajectory: Trajectory, people: People, member: Member, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(5):
        do_comment(trajectory, people.owner, f"@linus {number}")
    with django_assert_max_num_queries(1):
        assert unread_count(member.user) == 5
