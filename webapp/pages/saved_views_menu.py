"""The menu of saved views of a list."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from webapp.saved_views.models import MAX_NAME_LENGTH, SavedView
from webapp.teams.access import signed_in, writable_teams


def saved_views(request: HttpRequest, kind: SavedView.List) -> dict[str, Any] | None:
    """Return the context of templates/runs/_saved_views.html; None without an account. One statement."""
    if not request.user.is_authenticated:
        return None
    user = signed_in(request)
    views = SavedView.objects.visible_to(user).filter(list=kind).select_related("author")
    return {
        "views": list(views),
        "teams": writable_teams(user),
        "max_name": MAX_NAME_LENGTH,
    }
