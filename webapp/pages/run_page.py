"""Frame of the pages of a run: header and tabs.

A new tab is one view module in webapp/pages/runs/ that returns `run_page(request, run, <URL name>, <template>, ...)`,
its route in webapp/pages/runs/urls.py, and one line in TABS.
"""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from webapp.core import formatting
from webapp.live.snapshot import heading, snapshot
from webapp.runs import summaries
from webapp.runs.models import Run
from webapp.runs.queue.order import queue_positions
from webapp.teams.access import role_in_team
from webapp.teams.models import Membership

TABS = (
    ("run", "Live"),
    ("run-trajectories", "Trajectories"),
    ("run-curves", "Curves"),
    ("run-evaluation", "Evaluation"),
    ("run-configuration", "Configuration"),
    ("run-log", "Log"),
)
TEAM_TABS = {"run-log"}
"""Tabs for the team only: a log contains details of the machine."""


def run_page(request: HttpRequest, run: Run, tab: str, template: str, **context: Any) -> HttpResponse:
    """Render a tab of a run: header, state and tabs around `template`, which also gets `context`."""
    now = snapshot(run) if tab == "run" else heading(run)
    phase = now["phase"]
    role = role_in_team(request.user, run.team_id)
    return render(
        request,
        template,
        {
            "page": "runs",
            "run": run,
            "tab": tab,
            "tabs": [tab for tab in TABS if role is not None or tab[0] not in TEAM_TABS],
            "inside": role is not None,
            "snapshot": now,
            "state": now["state"],
            "writer": role in Membership.WRITERS,
            "may_hide": role == Membership.Role.ADMIN or run.author_id == request.user.pk,
            "phase_words": formatting.phase_text(phase, run.iterations)
            if run.state in Run.HELD
            else summaries.rest_words(run),
            "waiting": queue_positions(timezone.now()).get(run.pk) if run.state == Run.State.QUEUED else None,
            "priorities": [(choice.name.lower(), choice.label) for choice in Run.Priority],
            "priority": Run.Priority(run.priority).name.lower(),
            "may_prefer": role == Membership.Role.ADMIN,
            "pace_words": formatting.pace_text(phase, run.device, run.state),
            "progress": formatting.progress(phase, run.iterations, run.state),
            "rollout": run.config["rollout"],
        }
        | context,
    )
