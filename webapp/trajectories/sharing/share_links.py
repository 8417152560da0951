"""Share links: look-up by token, form for new links, and panel on a trajectory's page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Any

from django import forms
from django.http import HttpRequest, QueryDict
from django.urls import reverse
from django.utils import timezone
from django.utils.timesince import timesince

from webapp.runs.models import Run
from webapp.teams.models import Membership
from webapp.trajectories.models import ShareLink, Trajectory
from webapp.trajectories.positions import position_query, requested_position

EXPIRY_CHOICES = (
    ("never", "Never"),
    ("1", "In a day"),
    ("7", "In 7 days"),
    ("30", "In 30 days"),
    ("date", "On a date"),
)


def find_link(token: str) -> ShareLink | None:
    """Return the active link of that token with its trajectory, or None."""
    links = ShareLink.objects.open(timezone.now()).select_related("trajectory__group", "trajectory__run")
    return links.filter(token=token).first()


def open_shares(run: Run) -> int:
    """Return the number of active links to trajectories of the run."""
    return ShareLink.objects.open(timezone.now()).filter(trajectory__run=run).count()


def link_address(request: HttpRequest, link: ShareLink) -> str:
    """Return the URL of the link."""
    return request.build_absolute_uri(reverse("shared", args=[link.token]))


def start_position(link: ShareLink, query: QueryDict) -> tuple[int, int] | None:
    """Return the 0-based position at which the player opens: from the query, or else from the link, or else None."""
    position = requested_position(query)
    if position is not None or link.turn is None:
        return position
    return link.turn, -1 if link.action is None else link.action


class ShareForm(forms.Form):
    """Form of a new link. Positions are 1-based, as in URLs."""

    ends = forms.ChoiceField(choices=EXPIRY_CHOICES, initial="never")
    until = forms.DateField(required=False)
    here = forms.BooleanField(required=False)
    turn = forms.IntegerField(required=False, min_value=1, max_value=999_999)
    action = forms.IntegerField(required=False, min_value=0, max_value=999_999)
    indexable = forms.BooleanField(required=False)

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        if data.get("ends") == "date" and "until" not in self.errors:
            until = data.get("until")
            if until is None:
                self.add_error("until", "Enter the last day on which the link works.")
            elif until < timezone.now().date():
                self.add_error("until", "The last day must be today or later.")
        return data

    def expires_at(self, now: datetime) -> datetime | None:
        """Return the expiry in full minutes, so that a repeated form gives the same link; a date is the last day."""
        chosen = self.cleaned_data["ends"]
        if chosen == "never":
            return None
        if chosen == "date":
            return datetime.combine(self.cleaned_data["until"] + timedelta(days=1), time(), UTC)
        return now.replace(second=0, microsecond=0) + timedelta(days=int(chosen), minutes=1)

    def position(self) -> tuple[int | None, int | None]:
        """Return turn and action, 0-based."""
        turn, action = self.cleaned_data.get("turn"), self.cleaned_data.get("action")
        if not self.cleaned_data["here"] or turn is None or (turn == 1 and not action):
            return None, None
        return turn - 1, action - 1 if action else None

    def problem(self) -> str:
        """Return the first error of the form."""
        return next((str(errors[0]) for errors in self.errors.values()), "")


@dataclass(frozen=True)
class SharedLink:
    """A link in the panel."""

    link: ShareLink
    address: str
    opens: str
    viewed: str


def share_panel(request: HttpRequest, trajectory: Trajectory, role: Membership.Role | None) -> dict[str, Any]:
    """Return the context of templates/trajectories/_share.html: links only for the team, the form for writers."""
    links: list[SharedLink] = []
    if role is not None:
        queryset = ShareLink.objects.open(timezone.now()).filter(trajectory=trajectory).select_related("author")
        links = [
            SharedLink(link, link_address(request, link), _position_text(link), _views_text(link))
            for link in queryset.order_by("-pk")
        ]
    position = requested_position(request.GET)
    return {
        "inside": role is not None,
        "links": links,
        "ends": EXPIRY_CHOICES,
        "today": timezone.now().date(),
        "turn": position[0] + 1 if position else "",
        "action": position[1] + 1 if position else "",
    }


def _position_text(link: ShareLink) -> str:
    if link.turn is None:
        return "opens at the beginning"
    return f"opens at turn {link.turn + 1}" + ("" if link.action is None else f", action {link.action + 1}")


def _views_text(link: ShareLink) -> str:
    if link.last_viewed_at is None:
        return ""
    if timezone.now() - link.last_viewed_at < timedelta(minutes=1):
        return "just now"
    return f"{timesince(link.last_viewed_at, depth=1)} ago"


def start_query(position: tuple[int, int] | None) -> str:
    """Return the query string that opens the player at the position; empty for the start."""
    return position_query(*position) if position else ""
