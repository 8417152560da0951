"""Editing, archiving and deletion of a run."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods, require_POST

from webapp.annotations.queries import is_annotated
from webapp.core.quotas import QuotaExceeded
from webapp.pages.run_page import run_page
from webapp.runs.access import get_run, get_run_of_team, require_may_delete
from webapp.runs.actions import RequestRefused, do_archive_run, do_delete_run, do_update_run
from webapp.runs.forms import RunForm
from webapp.runs.models import Run
from webapp.teams.access import require_writer
from webapp.trajectories.models import ShareLink


@login_required
@require_http_methods(["GET", "POST"])
def run_edit(request: HttpRequest, slug: str) -> HttpResponse:
    """Show and save the form of a run's title, tags and notes."""
    run = get_run(request.user, slug)
    require_writer(request.user, run.team_id)
    form = RunForm(request.POST or None, initial=RunForm.initial_values(run))
    if form.is_valid():
        try:
            do_update_run(run, **form.changes)
            messages.success(request, "Saved.")
            return redirect("run", slug)
        except QuotaExceeded as refusal:
            form.add_error("tags", str(refusal))
    return run_page(request, run, "", "runs/edit.html", form=form)


@login_required
@require_POST
def run_archive(request: HttpRequest, slug: str) -> HttpResponse:
    """Archive a run, or restore it to the list if `archived` is empty."""
    run = get_run(request.user, slug)
    require_writer(request.user, run.team_id)
    archived = bool(request.POST.get("archived"))
    try:
        do_archive_run(run, archived)
        messages.success(request, "Archived: the list no longer shows this run." if archived else "Back in the list.")
    except RequestRefused as refusal:
        messages.warning(request, str(refusal))
    return redirect("run", slug)


@login_required
@require_http_methods(["GET", "POST"])
def run_delete(request: HttpRequest, slug: str) -> HttpResponse:
    """Confirm a deletion with a list of what it deletes, and carry it out."""
    run = get_run_of_team(request.user, slug)
    require_may_delete(request.user, run)
    error = ""
    if request.method == "POST":
        if request.POST.get("confirm", "").strip() != run.slug:
            error = f"Type {run.slug} to delete this run. Nothing was deleted."
        else:
            try:
                do_delete_run(run)
            except RequestRefused as refusal:
                error = str(refusal)
            else:
                messages.success(request, f"“{run.title}” is deleted.")
                return redirect("runs")
    return run_page(
        request,
        run,
        "",
        "runs/delete.html",
        error=error,
        ended=run.state in Run.ENDED,
        trajectories=run.trajectories.count(),
        annotated=run.trajectories.filter(is_annotated()).count(),
        shared=ShareLink.objects.filter(trajectory__run=run, revoked_at=None).count(),
        checkpoints=run.checkpoints.count(),
    )
