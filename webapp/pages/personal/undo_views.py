"""Undo of removals."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from webapp.teams.access import signed_in
from webapp.teams.removals import UndoRefused, do_undo, get_removal


@login_required
@require_POST
def undo(request: HttpRequest, slug: str) -> HttpResponse:
    """Undo a removal, then return to the page `next` of this site."""
    user = signed_in(request)
    removal = get_removal(user, slug)
    try:
        do_undo(removal, user)
        messages.success(request, f"Undone. Back as it was: {removal.name}.")
    except UndoRefused as refusal:
        messages.warning(request, str(refusal))
    back = request.POST.get("next", "")
    is_local = back.startswith("/") and url_has_allowed_host_and_scheme(back, allowed_hosts=None)
    return redirect(back if is_local else reverse("runs"))
