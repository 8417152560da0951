"""Looks for events and carries alerts out. Everything it knows stands in PostgreSQL: any number may run at once.

When it runs is said in webapp/core/scheduler.py; what is stored, in actions.py.
"""

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
"""Rules served at the same time: a slow receiver holds up only its own alerts, and one of so many seats."""
PER_ROUND = 20
WHOLE_LOOK_EVERY = 600.0
SHORT_LOOK_BACK = timedelta(minutes=15)


class Detector:
    """Finds events again and again: mostly those of the last minutes, now and then those of a week, for late news."""

    def __init__(self) -> None:
        self._whole_at = -WHOLE_LOOK_EVERY

    def look(self) -> None:
        whole = time.monotonic() - self._whole_at >= WHOLE_LOOK_EVERY
        now = timezone.now()
        actions.do_detect_alerts(now, actions.LOOK_BACK if whole else SHORT_LOOK_BACK)
        if whole:
            actions.do_forget_deliveries(now)
            self._whole_at = time.monotonic()


def deliver_due() -> int:
    """One round: every rule's due deliveries, in order. Returns how many tries were made."""
    due: dict[int, list[int]] = {}
    found = Delivery.objects.due(timezone.now()).order_by("next_try_at", "pk")
    for rule_id, delivery_id in found.values_list("rule_id", "pk")[: 50 * PER_ROUND]:
        due.setdefault(rule_id, []).append(delivery_id)
    if not due:
        return 0
    with ThreadPoolExecutor(min(BATCH_SIZE, len(due)), thread_name_prefix="courier") as pool:
        return sum(pool.map(_serve, due.values()))


def _serve(delivery_ids: list[int]) -> int:
    """The due deliveries of one rule, until one fails: the others would fail, too, and take their time."""
    tries = 0
    try:
        for delivery_id in delivery_ids[:PER_ROUND]:
            delivery = actions.do_claim_delivery(delivery_id, timezone.now())
            if delivery is None:
                continue
            outcome = deliver(delivery)
            actions.do_finish_delivery_attempt(delivery, outcome, timezone.now())
            tries += 1
            if not outcome.ok:
                break
    finally:
        connection.close()
    return tries


def deliver(delivery: Delivery) -> WebhookResponse:
    """One try."""
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
        return WebhookResponse(False, None, "This site cannot send e-mail yet: its operator has to name a mail server.")
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
        return WebhookResponse(False, None, f"The mail server did not take it: {error}", _since(started))
    return WebhookResponse(
        True, None, f"Handed to the mail server for {', '.join(delivery.rule.addresses)}.", _since(started)
    )


def _since(started: float) -> int:
    return round(1000 * (time.monotonic() - started))
