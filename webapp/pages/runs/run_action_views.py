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
from webapp.runs.actions import RequestRefused, do_request, do_update_run
from webapp.runs.models import Run
from webapp.teams.access import require_writer

REQUEST_MESSAGES = {
    "pause": "The run pauses after the turn being played and keeps a checkpoint.",
    "stop": "The run stops after the turn being played and keeps a checkpoint.",
    "cancel": "The run is cancelled. What it has shown so far stays here.",
    "resume": "The run is in the queue again and goes on from its last checkpoint.",
}
PRIORITY_MESSAGES = {
    Run.Priority.LOW: "The run has low priority now: others go first, until it has waited for long.",
    Run.Priority.NORMAL: "The run has normal priority now.",
    Run.Priority.HIGH: "The run has high priority now: it goes before runs that have not.",
}
VISIBILITY_MESSAGES = {
    Run.Visibility.PRIVATE: "Only its author and the team's admins see this run now.",
    Run.Visibility.TEAM: "The team sees this run now, and nobody else.",
    Run.Visibility.LINK: "Anyone with the link sees this run now, without an account.",
}


@login_required
@require_POST
def run_request(request: HttpRequest, slug: str, action: str) -> HttpResponse:
    """Pause, resume, stop or cancel."""
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
def run_priority(request: HttpRequest, slug: str) -> HttpResponse:
    """Low or normal by whoever may write, high by an admin of the team."""
    run = get_run(request.user, slug)
    require_writer(request.user, run.team_id)
    named = {choice.name.lower(): choice for choice in Run.Priority}
    wanted = named.get(request.POST.get("priority", ""))
    if wanted is None:
        messages.warning(request, "Choose a priority: low, normal or high. Nothing was changed.")
        return redirect("run", slug)
    require_may_prefer(request.user, run.team_id, wanted)
    do_update_run(run, priority=wanted)
    messages.success(request, PRIORITY_MESSAGES[wanted])
    return redirect("run", slug)


@login_required
@require_POST
def run_visibility(request: HttpRequest, slug: str) -> HttpResponse:
    """Private, the team's, or open to everybody who has the address."""
    run = get_run(request.user, slug)
    require_writer(request.user, run.team_id)
    wanted = request.POST.get("visibility", "")
    if wanted not in Run.Visibility.values:
        messages.warning(request, "Choose who may see the run. Nothing was changed.")
        return redirect("run", slug)
    visibility = Run.Visibility(wanted)
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
    """A checkpoint as a tar archive: an ordinary transformers folder, and what resuming needs."""
    run = get_run_of_team(request.user, slug)
    found = run_files.checkpoint(run, iteration)
    if found is None:
        raise Http404(f"There is no checkpoint of iteration {iteration} on this machine or in storage.")
    return streamed(request, found, "application/x-tar", f"{run.slug}-{iteration:06d}.tar", compressible=False)
