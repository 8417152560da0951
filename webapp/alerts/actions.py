"""Every change of alert rules and deliveries. Conditional, so that two processes never do a thing twice."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from webapp.alerts import messages
from webapp.alerts.detection import AlertEvent, alert_events, matches
from webapp.alerts.models import Delivery, Rule, Standstill, Try, new_secret
from webapp.alerts.webhooks import WebhookResponse
from webapp.core import ids
from webapp.runs.models import Run
from webapp.teams.models import Membership, Team, User

logger = logging.getLogger(__name__)

DELAYS = tuple(timedelta(seconds=seconds) for seconds in (30, 120, 420, 900, 2130))
"""After each failed try but the last: six tries within an hour."""
LEASE = timedelta(seconds=60)
"""How long a try may take. A process that died in it leaves the delivery to others after that."""
LOOK_BACK = timedelta(days=7)
MAX_FAILED_DELIVERIES = 5
"""Deliveries given up in a row, each after an hour: then the rule switches itself off."""
KEEP_DELIVERIES = timedelta(days=90)


class RuleRefused(ValueError):
    """This cannot be done now. The message says why, in words."""


def do_create_rule(team: Team, author: User, **settings: Any) -> Rule:
    """A rule that tells what happens from now on."""
    return Rule.objects.create(team=team, author=author, **settings)


def do_change_rule(rule: Rule, **settings: Any) -> Rule:
    """Other settings. What happened before is not told anew."""
    for name, value in settings.items():
        setattr(rule, name, value)
    rule.save(update_fields=list(settings))
    return rule


@transaction.atomic
def do_switch_rule(rule: Rule, on: bool) -> Rule:
    """Switch it on or off. Off: what waits is given up. On: what happened meanwhile is not told."""
    now = timezone.now()
    if on:
        changes = {"enabled": True, "disabled_reason": "", "failures": 0, "since": now}
        Rule.objects.filter(pk=rule.pk, enabled=False).update(**changes)
    else:
        Rule.objects.filter(pk=rule.pk, enabled=True).update(enabled=False)
        _drop(rule, now)
    rule.refresh_from_db()
    return rule


def do_delete_rule(rule: Rule) -> None:
    """For good, with its log."""
    rule.delete()


def do_renew_secret(rule: Rule) -> Rule:
    """Another key for the signature. The old one is void at once."""
    return do_change_rule(rule, secret=new_secret())


def do_test_rule(rule: Rule) -> Delivery:
    """Send a test, also of a rule that is switched off."""
    slug = ids.slug()
    told = messages.test_payload(rule, slug, timezone.now())
    return Delivery.objects.create(slug=slug, rule=rule, event="test", key=f"test:{slug}", payload=told)


def do_redeliver(delivery: Delivery) -> Delivery:
    """Once more from the first try, under the same id. Raises Refused while it waits anyway."""
    if delivery.event != "test" and not Rule.objects.filter(pk=delivery.rule_id, enabled=True).exists():
        raise RuleRefused("This rule is switched off. Switch it on first.")
    changed = (
        Delivery.objects.filter(pk=delivery.pk)
        .exclude(state=Delivery.State.PENDING)
        .update(state=Delivery.State.PENDING, tries=0, next_try_at=timezone.now(), claim="", ended_at=None)
    )
    if not changed:
        raise RuleRefused("This delivery is waiting for its next try already.")
    delivery.refresh_from_db()
    return delivery


def do_detect_alerts(now: datetime, look_back: timedelta = LOOK_BACK) -> int:
    """Store a delivery for each event that a rule tells and that has none yet. Returns how many are new."""
    rules = list(Rule.objects.filter(enabled=True).select_related("team"))
    if not rules:
        return 0
    if any({Rule.Event.QUEUED, Rule.Event.STALLED} & set(rule.events) for rule in rules):
        do_detect_stalled_runs(now)
    earliest: datetime = min(rule.since for rule in rules)
    authors = {rule.author_id for rule in rules if rule.author_id is not None}
    members = set(Membership.objects.filter(user_id__in=authors).values_list("user_id", "team_id"))
    found = [
        (rule, happening)
        for happening in alert_events(rules, max(earliest, now - look_back), now)
        for rule in rules
        if matches(rule, happening, members)
    ]
    return _store(found)


def _store(found: list[tuple[Rule, AlertEvent]]) -> int:
    """One delivery for each pair that has none. The unique key decides between processes that look at the same time."""
    keys = {happening.key for _, happening in found}
    known = set(Delivery.objects.filter(key__in=keys).values_list("rule_id", "key")) if keys else set()
    fresh = []
    for rule, happening in found:
        if (rule.pk, happening.key) not in known:
            slug = ids.slug()
            fresh.append(
                Delivery(
                    slug=slug,
                    rule=rule,
                    run=happening.run,
                    event=happening.event,
                    key=happening.key,
                    payload=messages.payload(rule, happening, slug),
                )
            )
    Delivery.objects.bulk_create(fresh, ignore_conflicts=True)
    return len(fresh)


@transaction.atomic
def do_detect_stalled_runs(now: datetime) -> None:
    """Note of every run that waits or is held since when it has not moved."""
    runs = {run.pk: run for run in Run.objects.filter(state__in=(Run.State.QUEUED, *Run.HELD), imported=False)}
    Standstill.objects.exclude(run__in=runs).delete()
    known = {still.run_id: still for still in Standstill.objects.select_for_update().filter(run__in=runs)}
    for run in runs.values():
        state = Run.State.QUEUED if run.state == Run.State.QUEUED else Run.State.RUNNING
        still = known.get(run.pk)
        if still is None:
            fresh = state == Run.State.QUEUED and run.attempt == 0
            since = run.created_at if fresh else now
            Standstill.objects.get_or_create(run=run, defaults={"state": state, "seq": run.seq, "since": since})
        elif (still.state, still.seq) != (state, run.seq):
            still.state, still.seq, still.since = state, run.seq, now
            still.save(update_fields=["state", "seq", "since"])


def do_claim_delivery(delivery_id: int, now: datetime) -> Delivery | None:
    """Take a due delivery for one try. Of two who ask at the same time, one gets None."""
    claim = ids.token()
    taken = Delivery.objects.filter(pk=delivery_id, state=Delivery.State.PENDING, next_try_at__lte=now).update(
        claim=claim, next_try_at=now + LEASE, tries=F("tries") + 1
    )
    return Delivery.objects.select_related("rule__team").get(pk=delivery_id, claim=claim) if taken else None


@transaction.atomic
def do_finish_delivery_attempt(delivery: Delivery, outcome: WebhookResponse, now: datetime) -> None:
    """Log the try and say what comes next: nothing more, another try, or the end of a rule that reaches nobody."""
    Try.objects.create(
        delivery=delivery,
        at=now,
        milliseconds=outcome.milliseconds,
        status=outcome.status,
        ok=outcome.ok,
        answer=outcome.answer,
    )
    mine = Delivery.objects.filter(pk=delivery.pk, claim=delivery.claim, state=Delivery.State.PENDING)
    if outcome.ok:
        if mine.update(state=Delivery.State.DELIVERED, ended_at=now, claim=""):
            Rule.objects.filter(pk=delivery.rule_id).update(failures=0)
    elif delivery.tries <= len(DELAYS) and delivery.event != "test":
        mine.update(next_try_at=now + DELAYS[delivery.tries - 1], claim="")
    elif mine.update(state=Delivery.State.FAILED, ended_at=now, claim="") and delivery.event != "test":
        _count_given_up(delivery.rule, outcome, now)


def _count_given_up(rule: Rule, outcome: WebhookResponse, now: datetime) -> None:
    Rule.objects.filter(pk=rule.pk).update(failures=F("failures") + 1)
    reason = (
        f"{MAX_FAILED_DELIVERIES} alerts in a row could not be delivered, each after {len(DELAYS) + 1} attempts in an "
        f"hour. The last answer: “{outcome.answer[:300].strip()}”."
    )
    too_many = Rule.objects.filter(pk=rule.pk, enabled=True, failures__gte=MAX_FAILED_DELIVERIES)
    if too_many.update(enabled=False, disabled_reason=reason):
        logger.warning("Alert rule %s switched itself off: %s", rule.slug, reason)
        _drop(rule, now)


def _drop(rule: Rule, now: datetime) -> None:
    """What waits for a rule that is off is given up; it can be sent again by hand."""
    waiting = Delivery.objects.filter(rule=rule, state=Delivery.State.PENDING).exclude(event="test")
    waiting.update(state=Delivery.State.FAILED, ended_at=now, claim="")


def do_forget_deliveries(now: datetime) -> int:
    """Drop what was settled long ago, but nothing that could be noticed anew. Returns how many."""
    gone, _ = (
        Delivery.objects.exclude(state=Delivery.State.PENDING)
        .filter(created_at__lt=now - max(KEEP_DELIVERIES, 2 * LOOK_BACK))
        .delete()
    )
    return gone
