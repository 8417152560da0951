"""Access to alert rules: members of the team read them, writers change them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.http import Http404

from webapp.notifications.models import Delivery, Rule
from webapp.teams.access import require_writer
from webapp.teams.models import User

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser


def get_rule(user: User | AnonymousUser, slug: str) -> Rule:
    """Return the rule of that slug if it belongs to a team of the user. Raises Http404."""
    rule = Rule.objects.visible_to(user).select_related("team", "author", "target_author").filter(slug=slug).first()
    if rule is None:
        raise Http404("This alert rule does not exist, or it belongs to a team you are not in.")
    return rule


def get_own_rule(user: User | AnonymousUser, slug: str) -> Rule:
    """Return the rule, to change it. Raises Http404, or PermissionDenied for viewers."""
    rule = get_rule(user, slug)
    require_writer(user, rule.team_id)
    return rule


def get_delivery(user: User | AnonymousUser, rule: Rule, slug: str) -> Delivery:
    """Return a delivery of the rule if the user may read its run. Raises Http404."""
    delivery = Delivery.objects.visible_to(user).filter(rule=rule).select_related("run").filter(slug=slug).first()
    if delivery is None:
        raise Http404("This delivery does not exist.")
    return delivery
