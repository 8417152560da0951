"""E-mails about mentions: sent once, unless the user has seen the mention or wants none."""

from __future__ import annotations

from django.core import mail
from django.utils import timezone
from pytest_django import Settings

from tests.webapp.annotations.conftest import Member
from tests.webapp.conftest import People
from webapp.annotations.actions import do_comment, do_edit_comment
from webapp.notifications.actions import do_set_preferences
from webapp.notifications.models import Delivery, Notification, NotificationPreference
from webapp.notifications.outbox import DELAYS, serve
from webapp.teams.models import Membership
from webapp.trajectories.models import Trajectory


def sent() -> list[str]:
    """States of the deliveries after one round of the outbox."""
    serve(None)
    return list(Delivery.objects.order_by("pk").values_list("state", flat=True))


def test_a_mention_is_mailed_once(trajectory: Trajectory, people: People, member: Member) -> None:
    comment = do_comment(trajectory, people.owner, "@linus see this")
    assert sent() == ["delivered"]
    do_edit_comment(comment, "@linus see that")
    assert sent() == ["delivered"]
    (message,) = mail.outbox
    assert message.to == ["linus@example.org"]
    assert message.subject == "Echoscope: ada mentioned you on Trial"
    assert "@linus see this" in message.body
    assert f"https://echoscope.example.org/mentions/{Notification.objects.get().slug}" in message.body


def test_no_mail_is_sent_if_disabled_without_address_or_already_read(
    trajectory: Trajectory, people: People, member: Member
) -> None:
    do_comment(trajectory, people.owner, "@grace has no address")
    do_comment(trajectory, people.owner, "@linus reads at once")
    member.client.get(f"/mentions/{Notification.objects.get(user=member.user).slug}")
    do_set_preferences(member.user, mention_mail=False)
    do_comment(trajectory, people.owner, "@linus wants none")
    assert sent() == ["held", "held"]
    assert mail.outbox == []


def test_the_mail_preference_applies_to_pending_mails(trajectory: Trajectory, people: People, member: Member) -> None:
    do_comment(trajectory, people.owner, "@linus one")
    asked = 'name="mention_mail" value="1"'
    assert f"{asked} checked" in member.client.get("/inbox").content.decode()
    member.client.post("/inbox/settings", {"own_runs": "1"})
    page = member.client.get("/inbox").content.decode()
    assert asked in page
    assert f"{asked} checked" not in page
    assert sent() == ["held"]


def test_without_a_mail_server_no_mail_is_queued_and_the_page_explains_it(
    trajectory: Trajectory, people: People, member: Member, settings: Settings
) -> None:
    settings.ECHOSCOPE_MAIL = False
    do_comment(trajectory, people.owner, "@linus one")
    assert sent() == []
    page = member.client.get("/inbox").content.decode()
    assert "E-mail is not configured" in page
    assert "mention_mail" not in page
    member.client.post("/inbox/settings", {})
    assert NotificationPreference.objects.get().mention_mail, "the form did not ask"


def test_a_refused_mail_is_retried_and_finally_given_up(
    trajectory: Trajectory, people: People, member: Member, settings: Settings
) -> None:
    settings.EMAIL_BACKEND = "tests.webapp.notifications.refusing_mail_server.Refusing"
    do_comment(trajectory, people.owner, "@linus one")
    for _ in DELAYS:
        assert sent() == ["pending"]
        assert serve(None) == 0, "it waits before it tries again"
        Delivery.objects.update(next_try_at=timezone.now())
    assert sent() == ["failed"]
    assert Delivery.objects.get().log.count() == len(DELAYS) + 1


def test_a_former_member_gets_no_mail(trajectory: Trajectory, people: People, member: Member) -> None:
    do_comment(trajectory, people.owner, "@linus one")
    Membership.objects.filter(user=member.user).delete()
    assert sent() == ["held"]
    assert mail.outbox == []
