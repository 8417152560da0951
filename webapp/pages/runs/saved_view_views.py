"""Saved views of the explorer and of the list of runs: the page that manages them, and its forms."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from webapp.explorer.trajectory_filters import Filters
from webapp.runs import run_filters
from webapp.runs.access import get_run
from webapp.saved_views.actions import ViewRefused, do_delete_view, do_rename_view, do_save_view
from webapp.saved_views.models import MAX_NAME_LENGTH, SavedView
from webapp.teams.access import get_team, require_writer, signed_in
from webapp.teams.undo_notice import offer_undo


@login_required
@require_GET
@never_cache
def saved_views(request: HttpRequest) -> HttpResponse:
    """Show the user's views and the views shared with them."""
    views = SavedView.objects.visible_to(signed_in(request)).select_related("author", "team").order_by("list", "name")
    context: dict[str, Any] = {"page": "runs", "views": views, "max_name": MAX_NAME_LENGTH}
    return render(request, "runs/saved_views.html", context)


@login_required
@require_POST
def save_view(request: HttpRequest) -> HttpResponse:
    """Save the filters in `query` under `name`; `team` shares them, `run` is the run whose explorer was open.

    Only users who may write in a team may share views with it.
    """
    user, data = signed_in(request), request.POST
    run = get_run(user, data["run"]) if data.get("run") else None
    team = get_team(user, data["team"]) if data.get("team") else None
    if team is not None:
        require_writer(user, team.pk)
    kind = SavedView.List.RUNS if run is None else SavedView.List.TRAJECTORIES
    query = clean_query(kind, str(data.get("query", "")))
    try:
        watched = set(SavedView.objects.filter(author=user).exclude(curve="").values_list("pk", flat=True))
        view = do_save_view(user, kind, str(data.get("name", "")), query, team)
        messages.success(request, _saved_text(view, was_watched=view.pk in watched))
    except ViewRefused as refusal:
        messages.warning(request, str(refusal))
    address = reverse("runs") if run is None else reverse("run-trajectories", args=[run.slug])
    return redirect(f"{address}?{query}" if query else address)


@login_required
@require_POST
def rename_view(request: HttpRequest, pk: int) -> HttpResponse:
    """Rename a view of the user; for a shared one, its author must still be allowed to write in the team."""
    view = _own(request, pk)
    if view.team_id is not None:
        require_writer(request.user, view.team_id)
    try:
        do_rename_view(view, str(request.POST.get("name", "")))
        messages.success(request, "Renamed.")
    except ViewRefused as refusal:
        messages.warning(request, str(refusal))
    return redirect("saved-views")


@login_required
@require_POST
def delete_view(request: HttpRequest, pk: int) -> HttpResponse:
    """Delete a view of the user."""
    view = _own(request, pk)
    offer_undo(request, f"Deleted “{view.name}”.", do_delete_view(view))
    return redirect("saved-views")


def clean_query(kind: str, query: str) -> str:
    """Return the filters, order and hidden columns in a query string, without pages, selections and invalid values."""
    data = QueryDict(query.removeprefix("?")[:5000])
    if kind == SavedView.List.TRAJECTORIES:
        return replace(Filters.parse(data)[0], view="").query()
    return run_filters.query(run_filters.read(data))


def _saved_text(view: SavedView, *, was_watched: bool) -> str:
    shared = f" and shared with {view.team.name}" if view.team else ""
    text = f"Saved as “{view.name}”{shared}."
    if was_watched and not view.curve:
        return f"{text} It is not watched any more, since its filters or its team changed."
    return text


def _own(request: HttpRequest, pk: int) -> SavedView:
    view = SavedView.objects.filter(pk=pk, author=signed_in(request)).first()
    if view is None:
        raise Http404("There is no such view of yours.")
    return view
