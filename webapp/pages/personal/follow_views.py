"""“Alert me” on the pages of a run: follow it, or stop."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from webapp.notifications.actions import do_follow
from webapp.runs.access import get_run_of_team
from webapp.teams.access import may_write, signed_in


@login_required
@require_POST
def run_follow(request: HttpRequest, slug: str) -> HttpResponse:
    """Follow with `on=1`, unfollow with any other value. Scripts get only the changed control."""
    run, user = get_run_of_team(request.user, slug), signed_in(request)
    on = request.POST.get("on") == "1"
    do_follow(user, run, on)
    if request.headers.get("X-Fragment"):
        context = {"run": run, "following": on, "writer": may_write(user, run.team_id)}
        return render(request, "runs/_alert_me.html", context)
    return redirect("inbox") if request.POST.get("next") == "inbox" else redirect("run", slug)
