"""Detects alert events and sends deliveries. Stateless: several processes may do so at once."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from smtplib import SMTPException

from django.core.mail import EmailMessage
from django.db import connection
from django.urls import reverse
from django.utils import timezone

from webapp.core import formatting
from webapp.core.mail import mail_is_configured
from webapp.notifications import messages, rule_actions
from webapp.notifications.actions import do_alert_team
from webapp.notifications.mail_addresses import allowed_addresses
from webapp.notifications.models import Delivery, Notification, Rule
from webapp.notifications.signatures import standard_headers
from webapp.notifications.webhooks import WebhookResponse, post
from webapp.runs.models import Run

BATCH_SIZE = 4
"""Rules served at the same time: a slow receiver delays only its own alerts, and takes one of these places."""
MAX_PER_RULE = 20
FULL_DETECTION_INTERVAL = 600.0
RECENT = timedelta(minutes=15)
PRIVATE = "This run is private, and its author did not set the target of this rule, so nothing was sent."
UNCONFIRMED = "None of the addresses is a member's or was confirmed by the link that was sent to it."


class Detector:
    """Repeated detection: usually of the last minutes, sometimes of a week, for events that arrive late."""

    def __init__(self) -> None:
        self._last_full = -FULL_DETECTION_INTERVAL

    def detect(self) -> None:
        full = time.monotonic() - self._last_full >= FULL_DETECTION_INTERVAL
        now = timezone.now()
        rule_actions.do_detect_alerts(now, rule_actions.LOOK_BACK if full else RECENT)
        if full:
            rule_actions.do_forget_deliveries(now)
            self._last_full = time.monotonic()


def deliver_due() -> int:
    """Send the due deliveries of every rule, in order. Returns the number of attempts."""
    due: dict[int, list[int]] = {}
    pending = Delivery.objects.due(timezone.now()).order_by("next_try_at", "pk")
    for rule_id, delivery_id in pending.values_list("rule_id", "pk")[: 50 * MAX_PER_RULE]:
        due.setdefault(rule_id, []).append(delivery_id)
    if not due:
        return 0
    with ThreadPoolExecutor(min(BATCH_SIZE, len(due)), thread_name_prefix="alerts") as pool:
        return sum(pool.map(_serve, due.values()))


def _serve(delivery_ids: list[int]) -> int:
    """Send the due deliveries of one rule up to the first failure: the others would fail as slowly."""
    attempts = 0
    try:
        for delivery_id in delivery_ids[:MAX_PER_RULE]:
            delivery = rule_actions.do_claim_delivery(delivery_id, timezone.now())
            if delivery is None:
                continue
            outcome = deliver(delivery)
            rule_actions.do_finish_delivery_attempt(delivery, outcome, timezone.now())
            attempts += 1
            if not outcome.ok and not outcome.held:
                break
    finally:
        connection.close()
    return attempts


def deliver(delivery: Delivery) -> WebhookResponse:
    """Send a delivery once."""
    rule = delivery.rule
    if not may_report(delivery):
        return WebhookResponse(False, None, PRIVATE, held=True)
    kind = {"Content-Type": "application/json"}
    match rule.channel:
        case Rule.Channel.WEBHOOK:
            body = messages.webhook_body(delivery)
            now = timezone.now()
            signed = standard_headers(rule.signing_secrets(now), delivery.slug, body, int(now.timestamp()))
            names = {"Echoscope-Event": delivery.event, "Echoscope-Delivery": delivery.slug}
            return post(rule.url, body, kind | signed | names)
        case Rule.Channel.INBOX:
            return _place_in_inboxes(delivery)
        case Rule.Channel.SLACK:
            return post(rule.url, messages.slack_body(delivery), kind)
        case _:
            return _mail(delivery)


def may_report(delivery: Delivery) -> bool:
    """Whether the run of the delivery may still be reported: its visibility or the rule's target may have changed.

    Inboxes need no such check: only those who may read the run get an entry, and see it while they may.
    """
    run, rule = delivery.run, delivery.rule
    if run is None or rule.channel == Rule.Channel.INBOX or run.visibility != Run.Visibility.PRIVATE:
        return True
    return rule.reports_private_runs and run.author_id == rule.author_id


def _place_in_inboxes(delivery: Delivery) -> WebhookResponse:
    """Entries for the members of the team; a test goes to the rule's author alone."""
    rule, payload = delivery.rule, delivery.payload
    if delivery.event == "test" and rule.author is None:
        return WebhookResponse(False, None, "This rule has no author, who would get the test.", held=True)
    alert = Notification(
        kind=Notification.Kind.ALERT,
        key=delivery.key,
        title=f"{payload['title']} · {rule.name}"[:200],
        message=payload["message"],
        path=reverse("run", args=[delivery.run.slug]) if delivery.run else reverse("alert", args=[rule.slug]),
    )
    count = do_alert_team(
        delivery.run, rule.team_id, only=rule.author if delivery.event == "test" else None, alert=alert
    )
    return WebhookResponse(True, None, f"In the inbox of {formatting.plural(count, 'member')}.")


def _mail(delivery: Delivery) -> WebhookResponse:
    if not mail_is_configured():
        return WebhookResponse(
            False, None, "E-mail is not configured on this site. Ask the operator to set ECHOSCOPE_EMAIL_URL."
        )
    addresses = allowed_addresses(delivery.rule)
    if not addresses:
        return WebhookResponse(False, None, UNCONFIRMED, held=True)
    started = time.monotonic()
    mail = EmailMessage(
        messages.mail_subject(delivery),
        messages.mail_text(delivery),
        to=addresses,
        headers={"X-Echoscope-Delivery": delivery.slug, "Auto-Submitted": "auto-generated"},
    )
    try:
        mail.send()
    except (SMTPException, OSError) as error:
        return WebhookResponse(False, None, f"The mail server refused it: {error}", _since(started))
    return WebhookResponse(True, None, f"Handed to the mail server for {', '.join(addresses)}.", _since(started))


def _since(started: float) -> int:
    return round(1000 * (time.monotonic() - started))
