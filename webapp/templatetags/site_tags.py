"""Filters and tags of all templates: formatting, roles, queries."""

from __future__ import annotations

from typing import Any

from django import template
from django.conf import settings

from webapp.core import formatting
from webapp.teams import access
from webapp.teams.models import Membership
from webapp.trajectories.sharing.public import outcome_of

register = template.Library()

register.filter("signed", formatting.signed)
register.filter("percent", formatting.percent)
register.filter("duration", formatting.duration)
register.filter("fixed", formatting.number)
register.filter("outcome", outcome_of)


@register.filter
def state_word(state: str) -> str:
    """Display name of a run's state."""
    return formatting.STATES.get(state, state)


@register.filter
def one_based(number: int) -> int:
    """A 0-based number of the journal, 1-based for display."""
    return number + 1


@register.filter
def may_launch(user: Any) -> bool:
    """Whether the user may launch runs in a team."""
    return any(place.role in Membership.WRITERS for place in access.memberships_of(user))


@register.filter
def places(user: Any) -> list[Membership]:
    """The user's teams with their role in each."""
    return access.memberships_of(user)


@register.simple_tag
def sign_in_provider() -> str:
    """Name of the organisation's sign-in (OpenID Connect); empty if not configured."""
    apps = settings.SOCIALACCOUNT_PROVIDERS.get("openid_connect", {}).get("APPS", [])
    return str(apps[0]["name"]) if apps else ""


@register.simple_tag
def sends_mail() -> bool:
    """Whether e-mail is configured."""
    return settings.ECHOSCOPE_MAIL


@register.simple_tag(takes_context=True)
def query(context: template.RequestContext, **changes: Any) -> str:
    """The current query with some values replaced; empty values are removed."""
    params = context["request"].GET.copy()
    for key, value in changes.items():
        params.pop(key, None)
        if value not in (None, ""):
            params[key] = str(value)
    return f"?{params.urlencode()}" if params else "?"
