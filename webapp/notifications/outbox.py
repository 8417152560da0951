"""Sends what is in the outbox: claim, attempt, retry, give up.

Several processes may send at once. A dead process's delivery is claimed again when its lease has expired.
"""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

from django.db import connection, transaction
from django.db.models import F
from django.utils import timezone

from webapp.core import ids
from webapp.notifications.channels import send
from webapp.notifications.models import Delivery, DeliveryAttempt, Rule
from webapp.notifications.webhooks import SendResult

logger = logging.getLogger(__name__)

DELAYS = tuple(timedelta(seconds=seconds) for seconds in (30, 120, 420, 900, 2130))
"""Delays after failed attempts: six attempts within an hour."""
MAX_ATTEMPTS = len(DELAYS) + 1
LEASE = timedelta(seconds=60)
"""Maximum duration of an attempt. If its process died, the delivery can be claimed again afterwards."""
MAX_FAILED_DELIVERIES = 5
"""Failed deliveries in a row, each after an hour, that disable a rule."""
PARALLEL_LANES = 4
"""Lanes served at the same time: a slow receiver delays only its own alerts, and takes one of these places."""
MAX_PER_LANE = 20


def deliver_due() -> int:
    """Send the due deliveries, in order for each rule. Returns the number of attempts."""
    lanes = list(Delivery.objects.due(timezone.now()).order_by("rule_id").values_list("rule_id", flat=True).distinct())
    if not lanes:
        return 0
    with ThreadPoolExecutor(min(PARALLEL_LANES, len(lanes)), thread_name_prefix="outbox") as pool:
        return sum(pool.map(_serve_in_thread, lanes))


def _serve_in_thread(rule_id: int | None) -> int:
    try:
        return serve(rule_id)
    finally:
        connection.close()


def serve(rule_id: int | None) -> int:
    """Send the due deliveries of a rule. Without a rule, stop at the first failure: the others would fail as slowly.

    Returns the number of attempts.
    """
    attempts = 0
    while attempts < MAX_PER_LANE and (delivery := do_claim(rule_id, timezone.now())):
        result = _attempt(delivery)
        do_finish_attempt(delivery, result, timezone.now())
        attempts += 1
        if not result.ok and not result.held:
            break
    return attempts


def _attempt(delivery: Delivery) -> SendResult:
    if delivery.tries > MAX_ATTEMPTS:
        return SendResult(False, None, "It was not attempted again: the process that sent it ended each time.")
    try:
        return send(delivery)
    except Exception as error:  # a fault of the site in one delivery must neither repeat forever nor stop the others
        logger.exception("Delivery %s could not be sent.", delivery.slug)
        return SendResult(False, None, f"{type(error).__name__}: {error}")


@transaction.atomic
def do_claim(rule_id: int | None, now: datetime) -> Delivery | None:
    """Claim the rule's first due delivery for one attempt. Concurrent callers get different deliveries."""
    due = Delivery.objects.due(now).filter(rule=rule_id).order_by("next_try_at", "pk")
    pk = due.select_for_update(skip_locked=True, of=("self",)).values_list("pk", flat=True).first()
    if pk is None:
        return None
    claim = {"claim": ids.token(), "next_try_at": now + LEASE, "tries": F("tries") + 1}
    Delivery.objects.filter(pk=pk).update(**claim)
    return Delivery.objects.select_related(
        "rule__team", "rule__author", "run", "mention__user", "mention__comment"
    ).get(pk=pk)


@transaction.atomic
def do_finish_attempt(delivery: Delivery, result: SendResult, now: datetime) -> None:
    """Log the attempt and settle the delivery: delivered, retried later, or failed, which may disable its rule.

    The site's refusals to send are neither retried nor counted as failures of the receiver.
    """
    DeliveryAttempt.objects.create(
        delivery=delivery,
        at=now,
        milliseconds=result.milliseconds,
        status=result.status,
        ok=result.ok,
        answer=result.answer,
    )
    mine = Delivery.objects.filter(pk=delivery.pk, claim=delivery.claim, state=Delivery.State.PENDING)
    if result.ok:
        if mine.update(state=Delivery.State.DELIVERED, ended_at=now, claim=""):
            Rule.objects.filter(deliveries=delivery.pk).update(failures=0)
    elif result.held:
        mine.update(state=Delivery.State.HELD, ended_at=now, claim="")
    elif delivery.tries < MAX_ATTEMPTS and not delivery.is_test:
        mine.update(next_try_at=now + DELAYS[delivery.tries - 1], claim="")
    elif mine.update(state=Delivery.State.FAILED, ended_at=now, claim=""):
        logger.warning("Delivery %s was given up: %s", delivery.slug, result.answer)
        if delivery.rule is not None and not delivery.is_test:
            _count_failure(delivery.rule, result, now)


def _count_failure(rule: Rule, result: SendResult, now: datetime) -> None:
    Rule.objects.filter(pk=rule.pk).update(failures=F("failures") + 1)
    reason = (
        f"{MAX_FAILED_DELIVERIES} alerts in a row could not be delivered, each after {MAX_ATTEMPTS} attempts in an "
        f"hour. The last response: “{result.answer[:300].strip()}”. Fix the receiver, then switch the rule on."
    )
    too_many = Rule.objects.filter(pk=rule.pk, enabled=True, failures__gte=MAX_FAILED_DELIVERIES)
    if too_many.update(enabled=False, disabled_reason=reason):
        logger.warning("Alert rule %s was disabled: %s", rule.slug, reason)
        fail_pending(rule, now)


def fail_pending(rule: Rule, now: datetime) -> None:
    """Fail the pending deliveries of a rule that is off; they can be sent again manually."""
    waiting = Delivery.objects.filter(rule=rule, state=Delivery.State.PENDING).exclude(event=Delivery.TEST)
    waiting.update(state=Delivery.State.FAILED, ended_at=now, claim="")
