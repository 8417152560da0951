"""Invitation stored in a visitor's session."""

from __future__ import annotations

from django.http import HttpRequest
from django.utils import timezone

from webapp.teams.models import Invitation

SESSION_KEY = "invitation"


def open_invitation(token: str) -> Invitation | None:
    """Return the open invitation with that token, with its team and author."""
    return Invitation.objects.open(timezone.now()).select_related("team", "author").filter(token=token).first()


def remember(request: HttpRequest, invitation: Invitation) -> None:
    """Store the invitation whose link the visitor followed, which permits the sign-up."""
    request.session[SESSION_KEY] = invitation.token


def remembered(request: HttpRequest) -> Invitation | None:
    """Return the visitor's invitation, if it is still open."""
    token = request.session.get(SESSION_KEY)
    return open_invitation(token) if token else None


def forget(request: HttpRequest) -> None:
    """Remove the invitation after its use."""
    request.session.pop(SESSION_KEY, None)
