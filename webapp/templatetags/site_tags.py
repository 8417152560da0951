"""What the site's templates need beyond Django's own: words for numbers, and whether to offer what a role forbids."""

from __future__ import annotations

from typing import Any

from django import template
from django.conf import settings

from webapp.core import formatting
from webapp.teams import access
from webapp.teams.models import Membership
from webapp.trajectories.models import Trajectory

register = template.Library()

register.filter("signed", formatting.signed)
register.filter("percent", formatting.percent)
register.filter("duration", formatting.duration)
register.filter("fixed", formatting.number)


@register.filter
def state_word(state: str) -> str:
    """The state of a run for people."""
    return formatting.STATES.get(state, state)


@register.filter
def one_based(number: int) -> int:
    """For people: what the journal counts from 0."""
    return number + 1


@register.filter
def outcome(trajectory: Trajectory) -> str:
    """What became of a trajectory."""
    ended = trajectory.status in Trajectory.ENDED
    success = trajectory.status == Trajectory.Status.SUCCESS if ended else None
    return formatting.outcome(
        success, trajectory.end, trajectory.turn_count, trajectory.action_count, trajectory.lost_at
    )


@register.filter
def may_launch(user: Any) -> bool:
    """Whether the user may launch runs somewhere."""
    return any(place.role in Membership.WRITERS for place in access.memberships_of(user))


@register.filter
def places(user: Any) -> list[Membership]:
    """The user's teams with their role in each."""
    return access.memberships_of(user)


@register.simple_tag
def sign_in_provider() -> str:
    """The name of the organisation's own sign-in (OpenID Connect); empty where there is none."""
    apps = settings.SOCIALACCOUNT_PROVIDERS.get("openid_connect", {}).get("APPS", [])
    return str(apps[0]["name"]) if apps else ""


@register.simple_tag
def sends_mail() -> bool:
    """Whether mail leaves this site."""
    return settings.ECHOSCOPE_MAIL


@register.simple_tag(takes_context=True)
def query(context: template.RequestContext, **changes: Any) -> str:
    """The page's own query with some values changed; empty ones leave it."""
    params = context["request"].GET.copy()
    for key, value in changes.items():
        params.pop(key, None)
        if value not in (None, ""):
            params[key] = str(value)
    return f"?{params.urlencode()}" if params else "?"
