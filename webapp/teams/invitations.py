"""The invitation that a visitor's session follows."""

from __future__ import annotations

from django.http import HttpRequest
from django.utils import timezone

from webapp.teams.models import Invitation

SESSION_KEY = "invitation"


def open_invitation(token: str) -> Invitation | None:
    """The invitation of that link while it can be accepted, with its team and author."""
    return Invitation.objects.open(timezone.now()).select_related("team", "author").filter(token=token).first()


def remember(request: HttpRequest, invitation: Invitation) -> None:
    """This visitor may sign up: they followed an invitation's link."""
    request.session[SESSION_KEY] = invitation.token


def remembered(request: HttpRequest) -> Invitation | None:
    """The open invitation by which this visitor came."""
    token = request.session.get(SESSION_KEY)
    return open_invitation(token) if token else None


def forget(request: HttpRequest) -> None:
    """It is used; the next sign-up in this browser needs another one."""
    request.session.pop(SESSION_KEY, None)
