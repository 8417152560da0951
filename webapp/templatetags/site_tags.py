"""Filters and tags of all templates: formatting, roles, queries."""

from __future__ import annotations

from typing import Any

from django import template
from django.conf import settings
from django.urls import reverse

from webapp.core import formatting
from webapp.runs.models import Run
from webapp.teams import access
from webapp.teams.models import Membership
from webapp.trajectories.branch_origin import branch_origin, place_text
from webapp.trajectories.observation_images import MIN_SHOWN_SIDE, shown_size
from webapp.trajectories.sharing.public import outcome_text
from webapp.trajectories.turn_text import extra_text, folded_parts, problem_label, response_text

register = template.Library()

register.filter("place_text", place_text)
register.filter("signed", formatting.signed)
register.filter("percent", formatting.percent)
register.filter("points", formatting.points)
register.filter("whole", formatting.whole)
register.filter("duration", formatting.duration)
register.filter("fixed", formatting.number)
register.filter("outcome", outcome_text)
register.filter("response_text", response_text)
register.filter("folded_parts", folded_parts)
register.filter("problem_label", problem_label)
register.filter("branch_origin", branch_origin)


@register.filter
def state_word(state: str) -> str:
    """Display name of a run's state."""
    return formatting.STATES.get(state, state)


@register.filter
def when(run: Run, iteration: int) -> str:
    """When something of a run happened, as in “after iteration 8”."""
    return run.when(iteration)


@register.filter
def suite_label(run: Run, suite: str) -> str:
    """Display name of a suite of a run."""
    return run.suite_label(suite)


@register.filter
def calls(actions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The calls of tools among the actions of a turn: text, result, and whether it failed."""
    found = (action["call"] for action in actions if action.get("call"))
    return [{**call, "text": formatting.call_text(call)} for call in found]


@register.filter
def more_text(turn: dict[str, Any]) -> str:
    """Further fields of a turn, as indented JSON; empty without any."""
    return extra_text(turn.get("extra"), turn["actions"])


@register.filter
def observations(turn: dict[str, Any]) -> list[dict[str, Any]]:
    """The images of a turn with their text alternatives and the sizes at which they are shown."""
    images, name = turn["images"], f"Observation of turn {turn['turn'] + 1}"
    shown = []
    for number, image in enumerate(images, 1):
        width, height = shown_size(image["width"], image["height"])
        shown.append(
            {
                **image,
                "alt": f"{name}, image {number} of {len(images)}" if len(images) > 1 else name,
                "shown_width": width,
                "shown_height": height,
                "pixelated": max(image["width"], image["height"]) < MIN_SHOWN_SIDE,
            }
        )
    return shown


@register.filter
def ordinal(index: int) -> int:
    """An index of the journal, which counts from 0, as people count: from 1."""
    return index + 1


@register.filter
def of_key(values: dict[Any, Any], key: Any) -> Any:
    """The value of a key that is not a constant; None without one."""
    return values.get(key)


@register.filter
def may_launch(user: Any) -> bool:
    """Whether the user may launch runs in a team."""
    return any(place.role in Membership.WRITERS for place in access.get_memberships(user))


@register.filter
def places(user: Any) -> list[Membership]:
    """The user's teams with their role in each."""
    return access.get_memberships(user)


PLACES = (
    ("r", "Runs", "runs"),
    ("l", "Launch", "launch"),
    ("s", "Studies", "studies"),
    ("c", "Compare", "compare"),
    ("p", "Reports", "reports"),
    ("e", "Environments", "environments"),
    ("w", "Workers", "workers"),
    ("i", "Inbox", "inbox"),
    ("a", "Alerts", "alerts"),
    ("t", "Team", "teams"),
    ("u", "Your account", "account"),
    ("", "API reference", "api-docs"),
    ("", "Administration", "admin:index"),
)
"""Pages of the site: second key after `g`, title, URL name."""


@register.filter
def site_places(user: Any) -> list[dict[str, str]]:
    """Pages that the user may open, for the command palette and the shortcuts."""
    hidden = {name for name, open_to in (("launch", may_launch(user)), ("admin:index", user.is_staff)) if not open_to}
    return [{"key": key, "title": title, "href": reverse(name)} for key, title, name in PLACES if name not in hidden]


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
