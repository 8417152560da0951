"""Frame of the pages of a run: header and tabs.

A new tab is one view module in webapp/pages/runs/ that returns `run_page(request, run, <URL name>, <template>, ...)`,
its route in webapp/pages/runs/urls.py, and one line in TABS.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from webapp.core import formatting, markdown
from webapp.core.soft_delete import UNDO_TIME
from webapp.live.snapshot import heading, snapshot
from webapp.notifications.actions import is_following
from webapp.pages.link_previews import run_preview
from webapp.reports.report_queries import mentioning
from webapp.runs import public_words, summaries
from webapp.runs.access import may_delete
from webapp.runs.models import Run
from webapp.runs.queue.order import queue_positions
from webapp.studies.access import study_run_of
from webapp.teams.access import role_in_team, signed_in
from webapp.teams.models import Membership
from webapp.trajectories.sharing.share_links import open_shares

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
    role = role_in_team(request.user, run.team_id)
    inside = role is not None
    now = snapshot(run, inside=inside) if tab == "run" else heading(run)
    phase = now["phase"]
    writer = role in Membership.WRITERS
    return render(
        request,
        template,
        {
            "page": "runs",
            "run": run,
            "tab": tab,
            "tab_title": dict(TABS).get(tab, ""),
            "run_progress": f"{phase['iteration']}/{run.iterations} · "
            if now["state"] == "running" and phase and run.iterations
            else "",
            "tabs": [tab for tab in TABS if inside or tab[0] not in TEAM_TABS],
            "inside": inside,
            "following": inside and is_following(signed_in(request), run),
            "failure": public_words.failure_words(run.failure, inside=inside),
            "problem": public_words.problem_words(run.journal_error, inside=inside),
            "snapshot": now,
            "state": now["state"],
            "writer": writer,
            "open_shares": open_shares(run) if writer and run.visibility == Run.Visibility.PRIVATE else 0,
            "may_delete": may_delete(request.user, run),
            "undoable": _is_undoable(run),
            "undo_minutes": UNDO_TIME // timedelta(minutes=1),
            "notes": markdown.render(run.notes) if run.notes else "",
            "study_run": study_run_of(request.user, run) if run.group else None,
            "reports": mentioning(request.user, run) if tab == "run" else [],
            "may_hide": role == Membership.Role.ADMIN or run.author_id == request.user.pk,
            "phase_words": formatting.phase_text(phase, run.length)
            if run.state in Run.HELD
            else summaries.rest_words(run),
            "waiting": queue_positions(timezone.now()).get(run.pk) if run.state == Run.State.QUEUED else None,
            "priorities": [(choice.name.lower(), choice.label) for choice in Run.Priority],
            "priority": Run.Priority(run.priority).name.lower(),
            "may_prefer": role == Membership.Role.ADMIN,
            "pace_words": formatting.pace_text(phase, run.device, run.state),
            "progress": formatting.progress(phase, run.length, run.state),
            "rollout": run.config.get("rollout", {}),
            "meta": run_preview(request, run),
        }
        | context,
    )


def _is_undoable(run: Run) -> bool:
    """Whether the run is being cancelled, or was cancelled so recently that it can be undone."""
    if run.state != Run.State.CANCELLED:
        return run.requested == Run.Request.CANCEL
    return run.ended_at is not None and run.ended_at > timezone.now() - UNDO_TIME
