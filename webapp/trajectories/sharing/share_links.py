"""Reading share links: finding one by its token, the form for a new one, the panel on a trajectory's page.

Making and closing links is in actions.py, the pages that they open are in shares_views.py and embeds_views.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Any

from django import forms
from django.http import HttpRequest, QueryDict
from django.urls import reverse
from django.utils import timezone
from django.utils.timesince import timesince

from webapp.teams.models import Membership
from webapp.trajectories.models import ShareLink, Trajectory
from webapp.trajectories.positions import asked, query

ENDS = (("never", "Never"), ("1", "After a day"), ("7", "After 7 days"), ("30", "After 30 days"), ("date", "On a date"))


def find_link(token: str) -> ShareLink | None:
    """The link of that token with what it shows, if it is neither revoked nor expired."""
    links = ShareLink.objects.open(timezone.now()).select_related("trajectory__group", "trajectory__run")
    return links.filter(token=token).first()


def link_address(request: HttpRequest, link: ShareLink) -> str:
    """What is copied and sent to people."""
    return request.build_absolute_uri(reverse("shared", args=[link.token]))


def start_of(link: ShareLink, given: QueryDict) -> tuple[int, int] | None:
    """Where the player opens, counted from 0: as the address says, else as the link says, else None."""
    position = asked(given)
    if position is not None or link.turn is None:
        return position
    return link.turn, -1 if link.action is None else link.action


class ShareForm(forms.Form):
    """What is asked for when a link is made. Positions count from 1, as in addresses."""

    ends = forms.ChoiceField(choices=ENDS, initial="never")
    until = forms.DateField(required=False)
    here = forms.BooleanField(required=False)
    turn = forms.IntegerField(required=False, min_value=1, max_value=999_999)
    action = forms.IntegerField(required=False, min_value=0, max_value=999_999)
    indexable = forms.BooleanField(required=False)

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        if given.get("ends") == "date" and "until" not in self.errors:
            until = given.get("until")
            if until is None:
                self.add_error("until", "Give the last day on which the link is to work.")
            elif until < timezone.now().date():
                self.add_error("until", "The last day of a link must be today or later.")
        return given

    def expires_at(self, now: datetime) -> datetime | None:
        """When the link ends: on a full minute, so that a form sent twice asks for the same; a date is its last day."""
        chosen = self.cleaned_data["ends"]
        if chosen == "never":
            return None
        if chosen == "date":
            return datetime.combine(self.cleaned_data["until"] + timedelta(days=1), time(), UTC)
        return now.replace(second=0, microsecond=0) + timedelta(days=int(chosen), minutes=1)

    def position(self) -> tuple[int | None, int | None]:
        """Turn and action counted from 0."""
        turn, action = self.cleaned_data.get("turn"), self.cleaned_data.get("action")
        if not self.cleaned_data["here"] or turn is None or (turn == 1 and not action):
            return None, None
        return turn - 1, action - 1 if action else None

    def problem(self) -> str:
        """The first thing that is wrong, in a sentence."""
        return next((str(errors[0]) for errors in self.errors.values()), "")


@dataclass(frozen=True)
class Shown:
    """A link as the panel lists it."""

    link: ShareLink
    address: str
    opens: str
    viewed: str


def share_panel(request: HttpRequest, trajectory: Trajectory, role: Membership.Role | None) -> dict[str, Any]:
    """What templates/trajectories/_share.html needs: links for the team alone, the form for those who may share."""
    links: list[Shown] = []
    if role is not None:
        found = ShareLink.objects.open(timezone.now()).filter(trajectory=trajectory).select_related("author")
        links = [
            Shown(link, link_address(request, link), _opens(link), _viewed(link)) for link in found.order_by("-pk")
        ]
    position = asked(request.GET)
    return {
        "inside": role is not None,
        "links": links,
        "ends": ENDS,
        "today": timezone.now().date(),
        "turn": position[0] + 1 if position else "",
        "action": position[1] + 1 if position else "",
    }


def _opens(link: ShareLink) -> str:
    if link.turn is None:
        return "opens at the beginning"
    return f"opens at turn {link.turn + 1}" + ("" if link.action is None else f", action {link.action + 1}")


def _viewed(link: ShareLink) -> str:
    if link.last_viewed_at is None:
        return ""
    if timezone.now() - link.last_viewed_at < timedelta(minutes=1):
        return "just now"
    return f"{timesince(link.last_viewed_at, depth=1)} ago"


def start_query(position: tuple[int, int] | None) -> str:
    """The query that opens the player there; empty for the beginning."""
    return query(*position) if position else ""
