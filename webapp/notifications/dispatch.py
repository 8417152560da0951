"""Passes each event to its subscriptions: alert rules get deliveries, followers get inbox entries.

An event and its consequences are stored in one transaction, so that a process that dies in between loses nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db import transaction
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from django.utils.text import capfirst

from webapp.core import ids
from webapp.notifications import messages
from webapp.notifications.actions import do_notify
from webapp.notifications.audience import Audience
from webapp.notifications.models import Delivery, Notification, Rule, RunEvent
from webapp.notifications.rule_actions import do_switch_off_ownerless_rules
from webapp.notifications.rule_matching import reported_as
from webapp.notifications.stalled_runs import stalled_events
from webapp.runs.actions import RequestRefused, do_request
from webapp.teams.models import Membership

logger = logging.getLogger(__name__)
BATCH_SIZE = 200
KEEP = timedelta(days=90)
"""Time for which events, deliveries and inbox entries are kept, longer than run_events.LOOK_BACK."""
MAX_MESSAGE_LENGTH = 600
Reported = tuple[Rule, RunEvent, str]


def dispatch() -> None:
    """Dispatch all pending events and report stalled runs; one round of the clock."""
    do_switch_off_ownerless_rules(timezone.now())
    while do_dispatch(timezone.now()) == BATCH_SIZE:
        pass
    do_report_stalled_runs(timezone.now())


@transaction.atomic
def do_dispatch(now: datetime) -> int:
    """Dispatch pending events, earliest first. Concurrent callers get different events. Returns their number."""
    pending = RunEvent.objects.filter(dispatched_at=None).select_for_update(skip_locked=True, of=("self",))
    events = list(
        pending.select_related("run__team", "run__author", "comment__author", "comment__trajectory")
        .defer("run__config", "run__log_tail", "run__journal_error")
        .order_by("pk")[:BATCH_SIZE]
    )
    if not events:
        return 0
    rules = list(
        Rule.objects.filter(enabled=True, team__in={event.run.team_id for event in events}).select_related("team")
    )
    reported = _reported(rules, events)
    _queue_alerts(reported)
    _pause_runs(reported)
    audience = Audience(events)
    do_notify(_entry(event, user) for event in events for user in audience.of(event))
    RunEvent.objects.filter(pk__in=[event.pk for event in events]).update(dispatched_at=now)
    return len(events)


def do_report_stalled_runs(now: datetime) -> int:
    """Queue the alerts about runs that wait or make no progress. Returns their number."""
    kinds = {Rule.Event.QUEUED, Rule.Event.STALLED}
    rules = [rule for rule in Rule.objects.filter(enabled=True).select_related("team") if kinds & set(rule.events)]
    return _queue_alerts(_reported(rules, stalled_events(rules, now))) if rules else 0


def _pause_runs(reported: Sequence[Reported]) -> None:
    """Pause the runs in trouble that a rule pauses; runs that have ended, or train elsewhere, go on as they are."""
    paused = {event.run for rule, event, name in reported if rule.pauses and name in Rule.TROUBLE}
    for run in paused:
        try:
            with transaction.atomic():
                do_request(run, "pause")
        except RequestRefused as refusal:
            logger.info("An alert rule did not pause the run %s: %s", run.slug, refusal)


def _reported(rules: Sequence[Rule], events: Sequence[RunEvent]) -> list[Reported]:
    """Return each rule with each event that it reports, and the name of that event."""
    authors = {rule.author_id for rule in rules if rule.author_id is not None}
    members = set(Membership.objects.filter(user_id__in=authors).values_list("user_id", "team_id"))
    return [(rule, event, name) for event in events for rule in rules if (name := reported_as(rule, event, members))]


def _queue_alerts(reported: Sequence[Reported]) -> int:
    """Create the missing deliveries. The unique key decides between concurrent processes. Returns their number."""
    keys = {event.key for _, event, _ in reported}
    existing = set(Delivery.objects.filter(key__in=keys).values_list("rule_id", "key"))
    fresh = [_delivery(rule, event, name) for rule, event, name in reported if (rule.pk, event.key) not in existing]
    Delivery.objects.bulk_create(fresh, ignore_conflicts=True)
    return len(fresh)


def _delivery(rule: Rule, event: RunEvent, name: str) -> Delivery:
    slug = ids.slug()
    payload = messages.payload(rule, name, event, slug)
    return Delivery(slug=slug, rule=rule, run=event.run, event=name, key=event.key, payload=payload)


def _entry(event: RunEvent, user: int) -> Notification:
    if event.comment is not None:
        title, path = f"Comment by {event.comment.author_name}", event.comment.address
    elif event.kind == RunEvent.SOLVED:
        query = urlencode({"iteration": event.details["iteration"]})
        title, path = "It got it!", f"{reverse('run-first-successes', args=[event.run.slug])}?{query}"
    elif event.kind == Rule.Event.SHARE:
        iteration = urlencode({"iteration": event.details["iteration"]})
        attempts = reverse("run-trajectories", args=[event.run.slug])
        title, path = messages.TITLES[event.kind], f"{attempts}?{event.details['query']}&{iteration}"
    else:
        title, path = messages.TITLES[event.kind], reverse("run", args=[event.run.slug])
    where = f"{capfirst(event.where)}. " if event.where else ""
    return Notification(
        user_id=user,
        kind=event.kind,
        run=event.run,
        comment=event.comment,  # the text is shown and may be edited
        key=event.key,
        title=title[:200],
        message=f"{where}{event.message}".strip()[:MAX_MESSAGE_LENGTH],
        path=path,
    )


def do_forget(now: datetime) -> int:
    """Delete old events, settled deliveries, and inbox entries except mentions. Returns their number."""
    old = now - KEEP
    rows = (
        RunEvent.objects.filter(dispatched_at__lt=old),
        Delivery.objects.exclude(state=Delivery.State.PENDING).filter(created_at__lt=old),
        Notification.objects.filter(created_at__lt=old).exclude(kind=Notification.Kind.MENTION),
    )
    return sum(queryset.delete()[0] for queryset in rows)
