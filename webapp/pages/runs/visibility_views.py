"""Who may see a run: asking for another visibility. What each one means is decided in models.readable_by."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from webapp.runs.access import get_run, require_may_set
from webapp.runs.actions import do_update_run
from webapp.runs.models import Run
from webapp.teams.access import require_writer

NOW = {
    Run.Visibility.PRIVATE: "Only its author and the team's admins see this run now.",
    Run.Visibility.TEAM: "The team sees this run now, and nobody else.",
    Run.Visibility.LINK: "Anyone with the link sees this run now, without an account.",
}


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
    messages.success(request, NOW[visibility])
    back = request.POST.get("next", "")
    if url_has_allowed_host_and_scheme(back, allowed_hosts=None):
        return redirect(back)
    return redirect("run", slug)
