"""The notice with an Undo button after a removal (templates/_message.html)."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest

from webapp.teams.models import Removal


def offer_undo(request: HttpRequest, text: str, removal: Removal | None) -> None:
    """Confirm a removal on the next page, with an Undo button if there is a `removal`."""
    if removal is None:
        messages.success(request, text)
    else:  # the only message with extra tags: the slug for its button
        text = f"{text} You can undo this for {removal.undo_time_text}."
        messages.success(request, text, extra_tags=removal.slug)
