"""Views that change a run (requests, priority, visibility), and the download of a checkpoint."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST, require_safe

from webapp.core.streaming import streamed
from webapp.runs import run_files
from webapp.runs.access import get_run, get_run_of_team, require_may_prefer, require_may_set
from webapp.runs.actions import RequestRefused, do_request, do_request_rebuild, do_update_run
from webapp.runs.models import Run
from webapp.teams.access import require_writer

REQUEST_MESSAGES = {
    "pause": "The run pauses after the current turn and writes a checkpoint.",
    "stop": "The run stops after the current turn and writes a checkpoint.",
    "cancel": "The run is cancelled. Its results so far are kept.",
    "resume": "The run is queued again and continues from its last checkpoint.",
}
PRIORITY_MESSAGES = {
    Run.Priority.LOW: "The run now has low priority: other runs start first until it has waited a long time.",
    Run.Priority.NORMAL: "The run now has normal priority.",
    Run.Priority.HIGH: "The run now has high priority: it starts before runs of lower priority.",
}
VISIBILITY_MESSAGES = {
    Run.Visibility.PRIVATE: "This run is now visible to its author and the team's admins only.",
    Run.Visibility.TEAM: "This run is now visible to the team only.",
    Run.Visibility.LINK: "Anyone with the link can now see this run, without an account.",
}


@login_required
@require_POST
def run_request(request: HttpRequest, slug: str, action: str) -> HttpResponse:
    """Request a pause, resume, stop or cancellation."""
    run = get_run(request.user, slug)
    require_writer(request.user, run.team_id)
    try:
        do_request(run, action)
        messages.success(request, REQUEST_MESSAGES[action])
    except RequestRefused as refusal:
        messages.warning(request, str(refusal))
    return redirect("run", slug)


@login_required
@require_POST
def run_rebuild(request: HttpRequest, slug: str) -> HttpResponse:
    """Request that everything shown of the run is read again from its journal."""
    run = get_run(request.user, slug)
    require_writer(request.user, run.team_id)
    try:
        do_request_rebuild(run)
        messages.success(request, "These pages are being rebuilt from the journal; they reload when that is done.")
    except RequestRefused as refusal:
        messages.warning(request, str(refusal))
    return redirect("run", slug)


@login_required
@require_POST
def run_priority(request: HttpRequest, slug: str) -> HttpResponse:
    """Set the priority: low or normal by writers, high by admins of the team."""
    run = get_run(request.user, slug)
    require_writer(request.user, run.team_id)
    named = {choice.name.lower(): choice for choice in Run.Priority}
    priority = named.get(request.POST.get("priority", ""))
    if priority is None:
        messages.warning(request, "Choose a priority: low, normal or high. Nothing was changed.")
        return redirect("run", slug)
    require_may_prefer(request.user, run.team_id, priority)
    do_update_run(run, priority=priority)
    messages.success(request, PRIORITY_MESSAGES[priority])
    return redirect("run", slug)


@login_required
@require_POST
def run_visibility(request: HttpRequest, slug: str) -> HttpResponse:
    """Set the visibility: private, team, or anyone with the link."""
    run = get_run(request.user, slug)
    require_writer(request.user, run.team_id)
    value = request.POST.get("visibility", "")
    if value not in Run.Visibility.values:
        messages.warning(request, "Choose a visibility. Nothing was changed.")
        return redirect("run", slug)
    visibility = Run.Visibility(value)
    require_may_set(request.user, run, visibility)
    do_update_run(run, visibility=visibility)
    messages.success(request, VISIBILITY_MESSAGES[visibility])
    back = request.POST.get("next", "")
    if url_has_allowed_host_and_scheme(back, allowed_hosts=None):
        return redirect(back)
    return redirect("run", slug)


@login_required
@require_safe
def run_checkpoint(request: HttpRequest, slug: str, iteration: int) -> HttpResponseBase:
    """A checkpoint as a tar archive: a transformers model folder and the files needed to resume."""
    run = get_run_of_team(request.user, slug)
    archive = run_files.checkpoint(run, iteration)
    if archive is None:
        raise Http404(f"The checkpoint of iteration {iteration} is neither on this machine nor in storage.")
    return streamed(request, archive, "application/x-tar", f"{run.slug}-{iteration:06d}.tar", compressible=False)
