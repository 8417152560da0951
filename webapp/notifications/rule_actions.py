"""Actions on alert rules and their deliveries. Updates are conditional: of two processes, only one takes effect."""

from __future__ import annotations

import json
import logging
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
from webapp.core.soft_delete import UNDO_TIME
from webapp.notifications import messages
from webapp.notifications.mail_addresses import admins_addresses
from webapp.notifications.models import Delivery, Rule
from webapp.notifications.outbox import fail_pending
from webapp.notifications.run_events import do_dispatch_again
from webapp.notifications.signatures import new_secret
from webapp.teams.audit import record
from webapp.teams.models import AuditAction, Membership, Removal, Team, User
from webapp.teams.removals import do_remove, restored

logger = logging.getLogger(__name__)

TARGET = ("channel", "addresses", "url")
"""Fields of a rule that say where its alerts are sent."""
SECRET_OVERLAP = timedelta(hours=24)
"""Time for which a replaced secret still signs in addition to the new one."""
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

    A member who changes the target of another's rule becomes the target's author, so that the private runs of the
    rule's author are not reported to a target that they did not choose.
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
    """Switch the rule on or off. Off fails its pending deliveries; on skips the events in between.

    If the rule's author has left the team, the user who switches it on becomes its author.
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
    """Delete the rule with its delivery log. Returns what undoes it; after an undo, missed events are delivered."""
    rows, name = Rule.objects.filter(pk=rule.pk), f"the alert rule “{rule.name}”"
    return do_remove(rows, team=rule.team, by=by, name=name, role=Membership.Role.MEMBER)


@receiver(restored, sender=Rule)
@receiver(restored, sender=Membership)
def _report_what_was_missed(rows: list[Rule] | list[Membership], **kwargs: Any) -> None:
    """Report the events since the rule was deleted, or since its author left the team."""
    for row in rows:
        do_dispatch_again(row.team_id, timezone.now() - UNDO_TIME)


@receiver(restored, sender=Membership)
def _switch_rules_on(rows: list[Membership], **kwargs: Any) -> None:
    """Switch on rules that were switched off only because their author left the team."""
    for member in rows:
        reason = former_member_reason(member.user.get_username())
        off = Rule.objects.filter(team=member.team_id, author=member.user_id, enabled=False, disabled_reason=reason)
        off.update(enabled=True, disabled_reason="")


@transaction.atomic
def do_rotate_secret(rule: Rule) -> Rule:
    """Replace the signing key. The old key also signs for another day. Raises RuleRefused after too many in a day."""
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


def do_switch_off_ownerless_rules(now: datetime) -> None:
    """Switch off rules whose authors have left the team or were deactivated, and notify the team's admins.

    Their alerts may go to a private address or webhook of a person who must not learn about the team's runs any more.
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
    """Tell the admins of the rule's team by e-mail that it was switched off; the rule's page says so as well."""
    to = admins_addresses(rule.team_id)
    if to and mail_is_configured():
        letter = json.dumps(asdict(messages.switched_off_letter(rule, to, reason)))
        key = f"switched-off:{rule.pk}:{now.isoformat()}"
        Delivery.objects.create(event=Delivery.SWITCHED_OFF, key=key, payload=letter)


def former_member_reason(name: str) -> str:
    """Return the reason for switching off a rule of that former member."""
    return (
        f"{name} is no longer in the team. Check where it sends its alerts before switching it on again, which "
        "makes you its author; or delete it."
    )
