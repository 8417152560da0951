"""The notice with an Undo button that follows a removal (templates/_message.html)."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.messages.storage.base import Message
from django.http import HttpRequest

from webapp.core import formatting
from webapp.teams.models import Removal
from webapp.teams.removals import UNDO_MINUTES

TAG = "undo-"


def offer_undo(request: HttpRequest, text: str, removal: Removal | None) -> None:
    """Confirm a removal on the next page, with a button that undoes it. Without a removal, nothing can be undone."""
    if removal is None:
        messages.success(request, text)
        return
    text = f"{text} You can undo this for {formatting.plural(UNDO_MINUTES, 'minute')}."
    messages.success(request, text, extra_tags=f"{TAG}{removal.slug}")


def undo_slug(message: Message) -> str:
    """The removal that the notice's button undoes; empty for a plain message."""
    first = (message.extra_tags or "").split(" ")[0]
    return first.removeprefix(TAG) if first.startswith(TAG) else ""
