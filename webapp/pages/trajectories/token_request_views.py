"""Requests to compute the tokens of an attempt from a checkpoint."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from webapp.pages.token_panel import token_panel
from webapp.runs.actions import RequestRefused
from webapp.teams.access import require_writer, signed_in
from webapp.teams.decorators import account_optional
from webapp.trajectories.access import get_trajectory
from webapp.trajectories.models import TokenArrays
from webapp.trajectories.token_computation import do_cancel_tokens, do_request_tokens


@account_optional
@require_safe
@never_cache
def token_computation(request: HttpRequest, slug: str) -> HttpResponse:
    """Return the panel with the state of the request if it has changed since `shown`; reload the page at its end."""
    trajectory = get_trajectory(request.user, slug)
    if TokenArrays.objects.filter(trajectory=trajectory).exists():
        return HttpResponse(headers={"HX-Refresh": "true"})
    context = token_panel(request.user, trajectory)
    if request.GET.get("shown") == context["shown"]:
        return HttpResponse(status=204)
    return render(request, "trajectories/_token_computation.html", context)


@login_required
@require_POST
def compute_tokens(request: HttpRequest, slug: str) -> HttpResponse:
    """Request the tokens, once."""
    trajectory = get_trajectory(request.user, slug)
    require_writer(request.user, trajectory.run.team_id)
    try:
        do_request_tokens(trajectory, signed_in(request))
    except RequestRefused as refusal:
        messages.warning(request, str(refusal))
    return redirect("trajectory-token-page", slug)


@login_required
@require_POST
def cancel_tokens(request: HttpRequest, slug: str) -> HttpResponse:
    """Withdraw the request."""
    trajectory = get_trajectory(request.user, slug)
    require_writer(request.user, trajectory.run.team_id)
    do_cancel_tokens(trajectory)
    return redirect("trajectory-token-page", slug)
