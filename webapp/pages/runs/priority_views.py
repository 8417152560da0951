"""How urgent a run is: asking for another priority. What it means for who goes next is decided in line.py."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from webapp.runs.access import get_run, require_may_prefer
from webapp.runs.actions import do_update_run
from webapp.runs.models import Run
from webapp.teams.access import require_writer

NOW = {
    Run.Priority.LOW: "The run has low priority now: others go first, until it has waited for long.",
    Run.Priority.NORMAL: "The run has normal priority now.",
    Run.Priority.HIGH: "The run has high priority now: it goes before runs that have not.",
}


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
    messages.success(request, NOW[wanted])
    return redirect("run", slug)
