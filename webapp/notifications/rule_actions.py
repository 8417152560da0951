"""Actions on alert rules and their deliveries. Updates are conditional: of two processes, one takes effect."""

from __future__ import annotations

import logging
import time
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.dispatch import receiver
from django.urls import reverse
from django.utils import timezone

from webapp.core import ids
from webapp.core.mail import mail_is_configured
from webapp.core.names import one_line
from webapp.notifications import messages
from webapp.notifications.detection import AlertEvent, alert_events, matches
from webapp.notifications.mail_addresses import admins_addresses
from webapp.notifications.models import Delivery, Rule, StalledRun
from webapp.notifications.outbox import fail_pending
from webapp.notifications.signatures import new_secret
from webapp.runs.models import Run
from webapp.teams.audit import record
from webapp.teams.models import AuditAction, Membership, Removal, Team, User
from webapp.teams.removals import do_remove, restored

logger = logging.getLogger(__name__)

LOOK_BACK = timedelta(days=7)
RECENT = timedelta(minutes=15)
FULL_DETECTION_INTERVAL = 600.0
TARGET = ("channel", "addresses", "url")
"""Fields of a rule that say where its alerts are sent."""
KEEP_DELIVERIES = timedelta(days=90)
SECRET_OVERLAP = timedelta(hours=24)
"""How long a replaced secret still signs in addition to the new one."""
MAX_FORMER_SECRETS = 4


class RuleRefused(ValueError):
    """The action is not possible now. The message gives the reason."""


@transaction.atomic
def do_create_rule(team: Team, author: User, **settings: Any) -> Rule:
    """Create a rule for events from now on."""
    rule = Rule.objects.create(team=team, author=author, **{"target_author": author} | _in_one_line(settings))
    _record(rule, "created", channel=rule.channel)
    return rule


def _record(rule: Rule, change: str, **details: Any) -> None:
    path = reverse("alert", args=[rule.slug])
    record(AuditAction.ALERT_CHANGED, f"“{rule.name}”: {change}", team=rule.team, path=path, **details)


@transaction.atomic
def do_change_rule(rule: Rule, user: User, **settings: Any) -> Rule:
    """Change settings as that user. Earlier events are not delivered again.

    A member who changes the target of another's rule becomes the author of its target, so that the private runs of the
    rule's author are not reported to a place that they did not choose.
    """
    retargeted = any(name in settings and settings[name] != getattr(rule, name) for name in TARGET)
    if retargeted or (user.pk == rule.author_id and set(TARGET) <= settings.keys()):
        settings["target_author"] = user
    for name, value in _in_one_line(settings).items():
        setattr(rule, name, value)
    rule.save(update_fields=list(settings))
    _record(rule, "changed", fields=sorted(settings))
    return rule


def _in_one_line(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: one_line(value) if name == "name" else value for name, value in settings.items()}


@transaction.atomic
def do_switch_rule(rule: Rule, on: bool, user: User | None = None) -> Rule:
    """Switch the rule on or off. Off fails its pending deliveries; on skips the events of the meantime.

    A rule whose author has left the team gets the user who switches it on as its author.
    """
    now = timezone.now()
    if on:
        changes = {"enabled": True, "disabled_reason": "", "failures": 0, "since": now}
        Rule.objects.filter(pk=rule.pk, enabled=False).update(**changes)
        if user is not None:
            Rule.objects.ownerless().filter(pk=rule.pk).update(author=user)
    else:
        Rule.objects.filter(pk=rule.pk, enabled=True).update(enabled=False)
        fail_pending(rule, now)
    rule.refresh_from_db()
    _record(rule, "switched on" if on else "switched off")
    return rule


def do_delete_rule(rule: Rule, by: User | None = None) -> Removal | None:
    """Delete the rule with its delivery log. Returns what undoes it; events since then are delivered afterwards."""
    rows, name = Rule.objects.filter(pk=rule.pk), f"the alert rule “{rule.name}”"
    return do_remove(rows, team=rule.team, by=by, name=name, role=Membership.Role.MEMBER)


@receiver(restored, sender=Membership)
def _switch_rules_on(rows: list[Membership], **kwargs: Any) -> None:
    """Switch on what was switched off because its author left the team, and only because of that."""
    for member in rows:
        reason = former_member_reason(member.user.get_username())
        off = Rule.objects.filter(team=member.team_id, author=member.user_id, enabled=False, disabled_reason=reason)
        off.update(enabled=True, disabled_reason="")


@transaction.atomic
def do_rotate_secret(rule: Rule) -> Rule:
    """Replace the signing key. The old one also signs for another day. Raises RuleRefused after too many in a day."""
    now = timezone.now()
    rule = (
        Rule.objects.select_for_update(of=("self",)).select_related("team", "author", "target_author").get(pk=rule.pk)
    )
    former = [entry for entry in rule.former_secrets if entry["secret"] in rule.signing_secrets(now)]
    if len(former) >= MAX_FORMER_SECRETS:
        raise RuleRefused(
            f"The secret was already replaced {MAX_FORMER_SECRETS} times within a day, and all of them still sign. "
            "Invalidate the old ones first."
        )
    rule.former_secrets = [{"secret": rule.secret, "until": (now + SECRET_OVERLAP).isoformat()}, *former]
    rule.secret = new_secret()
    rule.save(update_fields=["secret", "former_secrets"])
    _record(rule, "new secret")
    return rule


@transaction.atomic
def do_end_former_secrets(rule: Rule) -> Rule:
    """Stop signing with replaced secrets, for example because one became known."""
    rule.former_secrets = []
    rule.save(update_fields=["former_secrets"])
    _record(rule, "former secrets ended")
    return rule


def do_test_rule(rule: Rule) -> Delivery:
    """Queue a test delivery, also for a rule that is switched off."""
    slug = ids.slug()
    payload = messages.test_payload(rule, slug, timezone.now())
    return Delivery.objects.create(slug=slug, rule=rule, event=Delivery.TEST, key=f"test:{slug}", payload=payload)


def do_redeliver(delivery: Delivery) -> Delivery:
    """Queue a finished delivery again, under the same id. Raises RuleRefused while it is pending."""
    if not delivery.is_test and not Rule.objects.filter(deliveries=delivery.pk, enabled=True).exists():
        raise RuleRefused("This rule is switched off. Switch it on first.")
    changed = (
        Delivery.objects.filter(pk=delivery.pk)
        .exclude(state=Delivery.State.PENDING)
        .update(state=Delivery.State.PENDING, tries=0, next_try_at=timezone.now(), claim="", ended_at=None)
    )
    if not changed:
        raise RuleRefused("This delivery is already waiting for its next attempt.")
    delivery.refresh_from_db()
    return delivery


def do_detect_alerts(now: datetime, look_back: timedelta = LOOK_BACK) -> int:
    """Store a delivery for each new event that matches a rule. Returns their number."""
    do_switch_off_ownerless_rules(now)
    rules = list(Rule.objects.filter(enabled=True).select_related("team"))
    if not rules:
        return 0
    if any({Rule.Event.QUEUED, Rule.Event.STALLED} & set(rule.events) for rule in rules):
        do_detect_stalled_runs(now)
    earliest: datetime = min(rule.since for rule in rules)
    authors = {rule.author_id for rule in rules if rule.author_id is not None}
    members = set(Membership.objects.filter(user_id__in=authors).values_list("user_id", "team_id"))
    matching = [
        (rule, event)
        for event in alert_events(rules, max(earliest, now - look_back), now)
        for rule in rules
        if matches(rule, event, members)
    ]
    return _store(matching)


def do_switch_off_ownerless_rules(now: datetime) -> None:
    """Switch off rules whose authors have left the team or were deactivated, and notify the team's admins.

    Their alerts may go to a private address or webhook of a person who is not to hear of the team's runs any more.
    """
    for rule in Rule.objects.ownerless().filter(enabled=True).select_related("team", "author"):
        name = rule.author.get_username() if rule.author else "Its author"
        reason = former_member_reason(name)
        with transaction.atomic():
            if Rule.objects.filter(pk=rule.pk, enabled=True).update(enabled=False, disabled_reason=reason):
                logger.info("Alert rule %s was switched off: its author is no longer in the team.", rule.slug)
                fail_pending(rule, now)
                _mail_admins(rule, reason, now)


def _mail_admins(rule: Rule, reason: str, now: datetime) -> None:
    """Mail to the admins of the rule's team that it was switched off; the rule's page also says it."""
    to = admins_addresses(rule.team_id)
    if to and mail_is_configured():
        letter = asdict(messages.switched_off_letter(rule, to, reason))
        key = f"switched-off:{rule.pk}:{now.isoformat()}"
        Delivery.objects.create(event=Delivery.SWITCHED_OFF, key=key, payload=letter)


def former_member_reason(name: str) -> str:
    """Why a rule of that former member was switched off."""
    return (
        f"{name} is no longer in the team. Check where it sends its alerts before switching it on again, which "
        "makes you its author; or delete it."
    )


def _store(matching: list[tuple[Rule, AlertEvent]]) -> int:
    """Create the missing deliveries. The unique key decides between processes that detect at the same time."""
    keys = {event.key for _, event in matching}
    existing = set(Delivery.objects.filter(key__in=keys).values_list("rule_id", "key")) if keys else set()
    fresh = []
    for rule, event in matching:
        if (rule.pk, event.key) not in existing:
            slug = ids.slug()
            fresh.append(
                Delivery(
                    slug=slug,
                    rule=rule,
                    run=event.run,
                    event=event.event,
                    key=event.key,
                    payload=messages.payload(rule, event, slug),
                )
            )
    Delivery.objects.bulk_create(fresh, ignore_conflicts=True)
    return len(fresh)


@transaction.atomic
def do_detect_stalled_runs(now: datetime) -> None:
    """Record since when each queued or held run has made no progress."""
    runs = {run.pk: run for run in Run.objects.filter(state__in=(Run.State.QUEUED, *Run.HELD), imported=False)}
    StalledRun.objects.exclude(run__in=runs).delete()
    stalled_runs = {stalled.run_id: stalled for stalled in StalledRun.objects.select_for_update().filter(run__in=runs)}
    for run in runs.values():
        state = Run.State.QUEUED if run.state == Run.State.QUEUED else Run.State.RUNNING
        stalled = stalled_runs.get(run.pk)
        if stalled is None:
            fresh = state == Run.State.QUEUED and run.attempt == 0
            since = run.created_at if fresh else now
            StalledRun.objects.get_or_create(run=run, defaults={"state": state, "seq": run.seq, "since": since})
        elif (stalled.state, stalled.seq) != (state, run.seq):
            stalled.state, stalled.seq, stalled.since = state, run.seq, now
            stalled.save(update_fields=["state", "seq", "since"])


def do_forget_deliveries(now: datetime) -> int:
    """Delete old finished deliveries, but none that could be detected again. Returns their number."""
    deleted, _ = (
        Delivery.objects.exclude(state=Delivery.State.PENDING)
        .filter(created_at__lt=now - max(KEEP_DELIVERIES, 2 * LOOK_BACK))
        .delete()
    )
    return deleted


class AlertDetector:
    """Repeated detection: usually of the last minutes, sometimes of a week, for events that arrive late."""

    def __init__(self) -> None:
        self._last_full = -FULL_DETECTION_INTERVAL

    def detect(self) -> None:
        full = time.monotonic() - self._last_full >= FULL_DETECTION_INTERVAL
        now = timezone.now()
        do_detect_alerts(now, LOOK_BACK if full else RECENT)
        if full:
            do_forget_deliveries(now)
            self._last_full = time.monotonic()
