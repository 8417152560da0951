"""Labels of attempts in the explorer, and the watching of the view with which it is open."""

from __future__ import annotations

import math

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from webapp.explorer.open_view import OpenView, finds, get_scanner, get_view, summarize_labels
from webapp.explorer.watching import do_stop_watching, do_watch, do_watch_scanner
from webapp.runs.access import get_run_of_team
from webapp.runs.models import Run
from webapp.saved_views.actions import ViewRefused, do_label, do_unlabel
from webapp.teams.access import require_writer, signed_in
from webapp.trajectories.models import Trajectory


@login_required
@require_POST
def label_attempt(request: HttpRequest, slug: str, ref: str, trajectory: str) -> HttpResponse:
    """Label an attempt of the run with `answer` yes or no; any other answer removes its label.

    `sample` is set if the attempt was listed as one that the view does not find.
    """
    run, view = _writable(request, slug, ref)
    attempt = Trajectory.objects.current().filter(run=run, slug=trajectory).select_related("group").first()
    if attempt is None:
        raise Http404("There is no such attempt in this run.")
    sampled = "sample" in request.POST and not finds(view, attempt)
    if (answer := request.POST.get("answer")) in ("yes", "no"):
        do_label(attempt, signed_in(request), **view.label_key, right=answer == "yes", sampled=sampled)
    else:
        do_unlabel(attempt, **view.label_key)
    if request.headers.get("X-Fragment"):
        labels = summarize_labels(request.user, run.team_id, view)
        return render(request, "runs/_label_summary.html", {"labels": labels})
    return redirect(_address(run, view.not_found_query if sampled else view.query))


@login_required
@require_POST
def watch_view(request: HttpRequest, slug: str, ref: str) -> HttpResponse:
    """Watch the view, with `threshold` in percent for an alert; a scanner becomes a view of the team first."""
    run, view = _writable(request, slug, ref)
    try:
        threshold = _threshold(request.POST.get("threshold", ""))
        if view.view is not None:
            do_watch(view.view, threshold)
        elif (scanner := get_scanner(ref)) is not None:
            do_watch_scanner(run.team, signed_in(request), scanner, threshold)
        messages.success(request, f"{run.team.name} watches “{view.name}”.")
    except ViewRefused as refusal:
        messages.warning(request, str(refusal))
    return redirect(_address(run, view.query))


@login_required
@require_POST
def stop_watching(request: HttpRequest, slug: str, ref: str) -> HttpResponse:
    """Stop watching the view."""
    run, view = _writable(request, slug, ref)
    if view.view is not None:
        do_stop_watching(view.view)
    messages.success(request, f"“{view.name}” is not watched. Its curves remain as they are.")
    return redirect(_address(run, view.query))


def _writable(request: HttpRequest, slug: str, ref: str) -> tuple[Run, OpenView]:
    """Return the run, in whose team the user may write, and the view."""
    run = get_run_of_team(request.user, slug)
    require_writer(request.user, run.team_id)
    view = get_view(run.team_id, ref)
    if view is None:
        raise Http404("There is no such view of this team: its author has deleted it, or does not share it any more.")
    return run, view


def _address(run: Run, query: str) -> str:
    return f"{reverse('run-trajectories', args=[run.slug])}?{query}"


def _threshold(text: str) -> float | None:
    """Return the share of a percentage; None if it is empty. Raises ViewRefused."""
    text = text.removesuffix("%").strip()
    if not text:
        return None
    try:
        percent = float(text.replace(",", "."))
    except ValueError:
        percent = math.nan
    if not 0 <= percent < 100:
        raise ViewRefused("The threshold of the alert must be a percentage from 0 to below 100, or empty.")
    return percent / 100
