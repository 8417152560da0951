"""Channels that send a delivery once: by webhook, chat message or e-mail, or to the inboxes of a team."""

from __future__ import annotations

import time
from smtplib import SMTPException

from django.core.mail import EmailMessage
from django.urls import reverse
from django.utils import timezone

from webapp.core import formatting
from webapp.core.mail import mail_is_configured
from webapp.notifications import messages
from webapp.notifications.actions import do_alert_team
from webapp.notifications.mail_addresses import GENERATED, allowed_addresses
from webapp.notifications.messages import Letter
from webapp.notifications.models import Delivery, Notification, NotificationPreference, Rule
from webapp.notifications.signatures import standard_headers
from webapp.notifications.webhooks import SendResult, post
from webapp.runs.models import Run

JSON = {"Content-Type": "application/json"}
PRIVATE = "This run is private, and its author did not set the target of this rule, so nothing was sent."
UNCONFIRMED = "None of the addresses is a member's or was confirmed by the link that was sent to it."
NOT_WANTED = "The user has read the mention, no longer sees it, or wants no e-mails about mentions."


def send(delivery: Delivery) -> SendResult:
    """Send a delivery once."""
    if delivery.mention is not None:
        return _mail_mention(delivery, delivery.mention)
    if delivery.rule is None:
        return _mail(delivery, Letter(**delivery.facts))
    return _alert(delivery, delivery.rule)


def _alert(delivery: Delivery, rule: Rule) -> SendResult:
    if not may_report(delivery.run, rule):
        return _held(PRIVATE)
    match rule.channel:
        case Rule.Channel.INBOX:
            return _place_in_inboxes(delivery, rule)
        case Rule.Channel.SLACK:
            return post(rule.url, messages.slack_body(delivery), JSON)
        case Rule.Channel.WEBHOOK:
            body, now = delivery.payload.encode(), timezone.now()
            signed = standard_headers(rule.signing_secrets(now), delivery.slug, body, int(now.timestamp()))
            names = {"Echoscope-Event": delivery.event, "Echoscope-Delivery": delivery.slug}
            return post(rule.url, body, JSON | signed | names)
        case _:
            addresses = allowed_addresses(rule)
            return _mail(delivery, messages.alert_letter(delivery, addresses)) if addresses else _held(UNCONFIRMED)


def _held(reason: str) -> SendResult:
    return SendResult(False, None, reason, held=True)


def may_report(run: Run | None, rule: Rule) -> bool:
    """Return True if the rule may still report the run: its visibility or the rule's target may have changed.

    Inboxes need no such check: only users who may read the run get an entry, and they see it only while they may.
    """
    if run is None or rule.channel == Rule.Channel.INBOX or run.visibility != Run.Visibility.PRIVATE:
        return True
    return rule.reports_private_runs and run.author_id == rule.author_id


def _place_in_inboxes(delivery: Delivery, rule: Rule) -> SendResult:
    """Create entries for the members of the team; a test goes only to the rule's author."""
    if delivery.is_test and rule.author is None:
        return _held("This rule has no author, who would get the test.")
    alert = Notification(
        kind=Notification.Kind.ALERT,
        key=delivery.key,
        title=f"{delivery.facts['title']} · {rule.name}"[:200],
        message=delivery.facts["message"],
        path=reverse("run", args=[delivery.run.slug]) if delivery.run else reverse("alert", args=[rule.slug]),
    )
    count = do_alert_team(delivery.run, rule.team_id, only=rule.author if delivery.is_test else None, alert=alert)
    return SendResult(True, None, f"In the inbox of {formatting.plural(count, 'member')}.")


def _mail_mention(delivery: Delivery, mention: Notification) -> SendResult:
    waits = Notification.objects.of(mention.user).unread().filter(pk=mention.pk).exists()
    unwanted = NotificationPreference.objects.filter(user=mention.user, mention_mail=False).exists()
    if not waits or unwanted or not mention.user.email:
        return _held(NOT_WANTED)
    return _mail(delivery, messages.mention_letter(mention))


def _mail(delivery: Delivery, letter: Letter) -> SendResult:
    if not mail_is_configured():
        return SendResult(
            False, None, "E-mail is not configured on this site. Ask the operator to set ECHOSCOPE_EMAIL_URL."
        )
    started = time.monotonic()
    headers = GENERATED | {"X-Echoscope-Delivery": delivery.slug}
    try:
        EmailMessage(letter.subject, letter.text, to=letter.to, headers=headers).send()
    except (SMTPException, OSError) as error:
        return SendResult(False, None, f"The mail server refused it: {error}", _since(started))
    return SendResult(True, None, f"Handed to the mail server for {', '.join(letter.to)}.", _since(started))


def _since(started: float) -> int:
    return round(1000 * (time.monotonic() - started))
