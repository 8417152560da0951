"""One click that shows the Echo Trap: a run that collapses within minutes, and StarPO-S beside it."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from trainer.config.files import load_preset
from webapp.core.quotas import QuotaExceeded
from webapp.pages.runs.launch_page import require_teams
from webapp.runs.launch import experiment
from webapp.runs.launch.creation import SchedulingOptions, do_create_group, free_name
from webapp.runs.models import Run
from webapp.teams.access import signed_in

PRESET = "bandit-starpo-trap"
LAUNCH_KEY = "echo-trap"  # the same for every click, so that a second one opens the runs of the first


@login_required
@require_POST
def launch_echo_trap(request: HttpRequest) -> HttpResponse:
    """Launch both arms of the Echo Trap preset once, and open the one that collapses.

    A user who has launched them before gets those runs. Members who may not launch are refused, like everywhere.
    """
    team, author = require_teams(request)[0], signed_in(request)
    before = Run.objects.filter(author=author, launch_key__startswith=f"{LAUNCH_KEY}.").exists()
    planned = experiment.plan(load_preset(PRESET), PRESET, ("starpo", "starpo_s"), seeds=1)
    try:
        collapsing, *_ = do_create_group(
            team,
            author,
            planned,
            group=free_name(team, "Echo Trap"),
            scheduling=SchedulingOptions(),
            launch_key=LAUNCH_KEY,
        )
    except QuotaExceeded as refusal:
        messages.warning(request, f"Nothing was launched. {refusal}")
        return redirect("runs")
    if before:
        messages.info(request, "This is the Echo Trap that you launched before. Clone it to see it again.")
    else:
        messages.success(
            request,
            "Two runs launched: this one collapses within a few minutes; the one beside it differs by StarPO-S alone "
            "and learns. Compare them by their group.",
        )
    return redirect("run", collapsing.slug)
