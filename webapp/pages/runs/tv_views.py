"""Team TV, for a screen on the wall: the most telling attempt of the team's runs, their curves, and the queue."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from webapp.explorer.team_tv import most_telling, newest_moments
from webapp.runs import summaries
from webapp.runs.models import Run
from webapp.teams.models import Team
from webapp.trajectories.models import Trajectory
from webapp.trajectories.sharing.public import comment_on

MAX_RUNS = 6
"""Runs in each list."""
MAX_SHOWN = 20
"""Shown attempts that the screen remembers."""


@login_required
@require_GET
@never_cache
def tv(request: HttpRequest) -> HttpResponse:
    """Show the runs of the user's teams, or of one team (`?team=`), without private runs.

    `?shown=` lists attempts that were shown before. With the header `X-Fragment`, return only the part that changes.
    """
    runs = Run.objects.listed_for(request.user).exclude(visibility=Run.Visibility.PRIVATE)
    runs = runs.filter(archived_at=None).select_related("team", "author").defer("log_tail", "summary")
    team = None
    if slug := request.GET.get("team"):
        team = get_object_or_404(Team, slug=slug, memberships__user_id=request.user.pk)
        runs = runs.filter(team=team)
    trained = list(runs.filter(state__in=Run.HELD).order_by("-started_at", "-pk")[:MAX_RUNS])
    queued = runs.filter(state=Run.State.QUEUED).order_by("created_at", "pk")[:MAX_RUNS]
    ended = runs.filter(ended_at__isnull=False, iteration__gt=0).order_by("-ended_at", "-pk")
    recent = list(ended[: MAX_RUNS - len(trained)])
    moments = newest_moments(trained) or newest_moments(recent[:1])
    moment = most_telling(moments, request.GET.getlist("shown")[-MAX_SHOWN:])
    context = {
        "page": "tv",
        "team": team,
        "moment": moment,
        "comment": moment and comment_on(_attempt(moment.highlight.attempt.slug)),
        "rows": summaries.cards([*trained, *recent]),
        "queue": summaries.cards(list(queued)),
    }
    return render(request, "runs/_tv.html" if request.headers.get("X-Fragment") else "runs/tv.html", context)


def _attempt(slug: str) -> Trajectory:
    return Trajectory.objects.select_related("group", "run").get(slug=slug)
