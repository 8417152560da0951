"""Mentions: notified users, lists, unread count, and optional e-mails."""

from __future__ import annotations

from datetime import timedelta
from smtplib import SMTPException

import pytest
from django.core import mail
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from tests.webapp.annotations.conftest import Member
from tests.webapp.conftest import People
from tests.webapp.fragments import contains
from tests.webapp.page_requests import Visitors, who
from webapp.annotations import mention_mail
from webapp.annotations.actions import do_comment, do_delete_comment, do_edit_comment, do_set_mention_mail
from webapp.annotations.models import Mention
from webapp.runs.models import Run
from webapp.teams.models import Membership
from webapp.trajectories.models import Trajectory

__all__ = ["who"]


@pytest.fixture(autouse=True)
def _mail_server(settings: Settings) -> None:
    settings.ECHOSCOPE_MAIL = True


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
    do_delete_comment(comment)
    assert not Mention.objects.of(people.viewer).exists()


def test_the_navigation_counts_unread_mentions_and_opening_marks_as_read(
    trajectory: Trajectory, people: People, member: Member, who: Visitors
) -> None:
    first = do_comment(trajectory, people.owner, "@linus one", 0)
    do_comment(trajectory, people.owner, "@linus two <b>")
    page = member.client.get("/mentions").content.decode()
    assert contains(page, '<b class="unread">2<')
    assert "two &lt;b&gt;" in page
    mention = Mention.objects.get(comment=first)
    assert who.viewer.get(f"/mentions/{mention.slug}").status_code == 404
    answer = member.client.get(f"/mentions/{mention.slug}")
    assert answer.headers["Location"] == f"/t/{trajectory.slug}?turn=1#comment-{first.slug}"
    assert contains(member.client.get("/environments").content.decode(), '<b class="unread">1<')
    member.client.post("/mentions/read")
    assert 'class="unread"' not in member.client.get("/mentions").content.decode()


def test_anonymous_users_get_the_login_and_others_their_own_mentions(
    trajectory: Trajectory, people: People, member: Member, who: Visitors
) -> None:
    do_comment(trajectory, people.owner, "@linus for your eyes")
    assert who.anonymous.get("/mentions").status_code == 302
    for client in (who.owner, who.viewer, who.outsider):
        assert "for your eyes" not in client.get("/mentions").content.decode()
    Membership.objects.filter(user=member.user).delete()
    assert "for your eyes" not in member.client.get("/mentions").content.decode()


def test_the_unread_count_takes_one_query(
    trajectory: Trajectory, people: People, member: Member, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(5):
        do_comment(trajectory, people.owner, f"@linus {number}")
    with django_assert_max_num_queries(1):
        from webapp.annotations.panel import unread_count

        assert unread_count(member.user) == 5


def test_a_mention_is_mailed_once(trajectory: Trajectory, people: People, member: Member, settings: Settings) -> None:
    settings.ECHOSCOPE_URL = "https://echoscope.example.org"
    do_comment(trajectory, people.owner, "@linus see this")
    assert mention_mail.send_due() == 1
    assert mention_mail.send_due() == 0
    (sent,) = mail.outbox
    assert sent.to == ["linus@example.org"]
    assert sent.subject == "Echoscope: ada mentioned you on Trial"
    assert "@linus see this" in sent.body
    assert f"https://echoscope.example.org/mentions/{Mention.objects.get().slug}" in sent.body


def test_no_mail_is_sent_if_disabled_without_address_or_already_read(
    trajectory: Trajectory, people: People, member: Member
) -> None:
    do_comment(trajectory, people.owner, "@grace has no address")
    do_comment(trajectory, people.owner, "@linus reads at once")
    member.client.get(f"/mentions/{Mention.objects.get(user=member.user).slug}")
    do_set_mention_mail(member.user, False)
    do_comment(trajectory, people.owner, "@linus wants none")
    assert mention_mail.send_due() == 0
    assert mail.outbox == []


def test_the_mail_preference_applies_to_pending_mails(trajectory: Trajectory, people: People, member: Member) -> None:
    do_comment(trajectory, people.owner, "@linus one")
    assert "Stop e-mails" in member.client.get("/mentions").content.decode()
    member.client.post("/mentions/mail", {"mail": "0"})
    assert "E-mail them to me" in member.client.get("/mentions").content.decode()
    assert mention_mail.send_due() == 0


def test_without_a_mail_server_no_mail_is_sent_and_the_page_explains_it(
    trajectory: Trajectory, people: People, member: Member, settings: Settings
) -> None:
    settings.ECHOSCOPE_MAIL = False
    do_comment(trajectory, people.owner, "@linus one")
    assert mention_mail.send_due() == 0
    assert "E-mail is not configured" in member.client.get("/mentions").content.decode()


def test_a_refused_mail_is_retried_and_finally_given_up(
    trajectory: Trajectory, people: People, member: Member, settings: Settings
) -> None:
    settings.EMAIL_BACKEND = "tests.webapp.annotations.test_mentions.Refusing"
    do_comment(trajectory, people.owner, "@linus one")
    for attempt in range(1, mention_mail.MAX_ATTEMPTS + 1):
        assert mention_mail.send_due() == 0
        assert Mention.objects.get().mail_tries == attempt
        assert mention_mail.send_due() == 0
        assert Mention.objects.get().mail_tries == attempt, "it waits before it tries again"
        Mention.objects.filter(mail_at__isnull=False).update(mail_at=timezone.now() - timedelta(seconds=1))
    assert Mention.objects.get().mail_at is None


def test_a_former_member_gets_no_mail(trajectory: Trajectory, people: People, member: Member) -> None:
    do_comment(trajectory, people.owner, "@linus one")
    Membership.objects.filter(user=member.user).delete()
    assert mention_mail.send_due() == 0
    assert Mention.objects.get().mail_at is None


class Refusing:
    """A mail server that refuses everything."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        pass

    def send_messages(self, messages: list[object]) -> int:
        raise SMTPException("mailbox full")
