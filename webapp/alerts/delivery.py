"""Detects alert events and sends deliveries. Stateless: several processes may do so at once."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from smtplib import SMTPException

from django.core.mail import EmailMessage
from django.db import connection
from django.utils import timezone

from webapp.alerts import actions, messages
from webapp.alerts.models import Delivery, Rule
from webapp.alerts.webhooks import SIGNATURE_HEADER, WebhookResponse, post, sign
from webapp.core.mail import mail_is_configured

BATCH_SIZE = 4
"""Rules served at the same time: a slow receiver delays only its own alerts, and takes one of these places."""
MAX_PER_RULE = 20
FULL_DETECTION_INTERVAL = 600.0
RECENT = timedelta(minutes=15)


class Detector:
    """Repeated detection: usually of the last minutes, sometimes of a week, for events that arrive late."""

    def __init__(self) -> None:
        self._last_full = -FULL_DETECTION_INTERVAL

    def detect(self) -> None:
        full = time.monotonic() - self._last_full >= FULL_DETECTION_INTERVAL
        now = timezone.now()
        actions.do_detect_alerts(now, actions.LOOK_BACK if full else RECENT)
        if full:
            actions.do_forget_deliveries(now)
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
            delivery = actions.do_claim_delivery(delivery_id, timezone.now())
            if delivery is None:
                continue
            outcome = deliver(delivery)
            actions.do_finish_delivery_attempt(delivery, outcome, timezone.now())
            attempts += 1
            if not outcome.ok:
                break
    finally:
        connection.close()
    return attempts


def deliver(delivery: Delivery) -> WebhookResponse:
    """Send a delivery once."""
    rule = delivery.rule
    kind = {"Content-Type": "application/json"}
    match rule.channel:
        case Rule.Channel.WEBHOOK:
            body = messages.webhook_body(delivery)
            signature = sign(rule.secret, body, int(time.time()))
            names = {"Echoscope-Event": delivery.event, "Echoscope-Delivery": delivery.slug}
            return post(rule.url, body, kind | names | {SIGNATURE_HEADER: signature})
        case Rule.Channel.SLACK:
            return post(rule.url, messages.slack_body(delivery), kind)
        case _:
            return _mail(delivery)


def _mail(delivery: Delivery) -> WebhookResponse:
    if not mail_is_configured():
        return WebhookResponse(
            False, None, "E-mail is not configured on this site. Ask the operator to set ECHOSCOPE_EMAIL_URL."
        )
    started = time.monotonic()
    mail = EmailMessage(
        messages.mail_subject(delivery),
        messages.mail_text(delivery),
        to=delivery.rule.addresses,
        headers={"X-Echoscope-Delivery": delivery.slug, "Auto-Submitted": "auto-generated"},
    )
    try:
        mail.send()
    except (SMTPException, OSError) as error:
        return WebhookResponse(False, None, f"The mail server refused it: {error}", _since(started))
    return WebhookResponse(
        True, None, f"Handed to the mail server for {', '.join(delivery.rule.addresses)}.", _since(started)
    )


def _since(started: float) -> int:
    return round(1000 * (time.monotonic() - started))
