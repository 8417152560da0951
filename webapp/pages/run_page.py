"""Frame of the pages of a run: header and tabs.

A new tab is one view module in webapp/pages/runs/ that returns `run_page(request, run, <URL name>, <template>, ...)`,
its route in webapp/pages/runs/urls.py, and one line in TABS.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.templatetags.static import static
from django.utils import timezone

from webapp.core import formatting, markdown
from webapp.core.soft_delete import UNDO_TIME
from webapp.live.snapshot import heading, snapshot
from webapp.notifications.actions import is_following
from webapp.pages.link_previews import run_preview
from webapp.reports.models import Report
from webapp.runs import public_texts, setting_changes, summaries
from webapp.runs.condition import SICK
from webapp.runs.models import Run
from webapp.runs.queue.order import queue_positions
from webapp.runs.run_colours import get_colour
from webapp.studies.access import find_study_run
from webapp.teams.access import may_delete, role_in_team, signed_in
from webapp.teams.models import Membership
from webapp.trajectories.sharing.share_links import open_shares

TABS = {
    "run": "Live",
    "run-trajectories": "Attempts",
    "run-curves": "Curves",
    "run-evaluation": "Evaluation",
    "run-configuration": "Configuration",
    "run-log": "Log",
}
REST_TAB = "Overview"
"""The first tab of a run in which nothing is happening."""
TEAM_TABS = {"run-log"}
"""Tabs only for the team, since a log contains details of the machine."""
ICONS = ("trapped", "watch", "paused", "finished", "failed")
"""Variants of the site's icon, static/img/icon_NAME.svg, that show the state of a run in the browser's tab."""


def run_page(request: HttpRequest, run: Run, tab: str, template: str, **context: Any) -> HttpResponse:
    """Render a tab of a run: header, state and tabs around `template`, which also gets `context`."""
    role = role_in_team(request.user, run.team_id)
    inside = role is not None
    now = snapshot(run, inside=inside) if tab == "run" else heading(run)
    phase = now["phase"]
    writer = role in Membership.WRITERS
    icons = {name: static(f"img/icon{name and '_'}{name}.svg") for name in ("", *ICONS)}
    return render(
        request,
        template,
        {
            "page": "runs",
            "run": run,
            "colour": get_colour(run.pk),
            "tab": tab,
            "tab_title": tab_title(tab, run),
            "run_status": status_text(run, phase),
            "icon": icons[icon_name(run)],
            "icons": icons,
            "tabs": [(name, tab_title(name, run)) for name in TABS if inside or name not in TEAM_TABS],
            "inside": inside,
            "following": inside and is_following(signed_in(request), run),
            "failure": public_texts.failure_text(run.failure, inside=inside),
            "problem": public_texts.problem_text(run.journal_error, inside=inside),
            "snapshot": now,
            "state": now["state"],
            "writer": writer,
            "open_shares": open_shares(run) if writer and run.visibility == Run.Visibility.PRIVATE else 0,
            "may_delete": may_delete(request.user, run.team_id, run.author_id),
            "undoable": _is_undoable(run),
            "waiting_rewind": setting_changes.waiting_rewind(run) if inside else None,
            "undo_minutes": UNDO_TIME // timedelta(minutes=1),
            "notes": markdown.render(run.notes) if run.notes else "",
            "study_run": find_study_run(request.user, run) if run.group else None,
            "reports": Report.objects.mentioning(request.user, run) if tab == "run" else [],
            "may_hide": role == Membership.Role.ADMIN or run.author_id == request.user.pk,
            "phase_text": formatting.phase_text(phase, run.length)
            if run.state in Run.HELD
            else summaries.rest_text(run),
            "waiting": queue_positions(timezone.now()).get(run.pk) if run.state == Run.State.QUEUED else None,
            "priorities": Run.Priority.options(),
            "priority": Run.Priority(run.priority).name.lower(),
            "may_prefer": role == Membership.Role.ADMIN,
            "pace_text": formatting.pace_text(phase, run.device, run.state),
            "progress": formatting.progress(phase, run.length, run.state),
            "rollout": run.config.get("rollout", {}),
            "meta": run_preview(request, run),
        }
        | context,
    )


def tab_title(name: str, run: Run) -> str:
    """Return the title of a tab; the first one is live only while a worker trains the run."""
    return REST_TAB if name == "run" and run.state not in Run.HELD else TABS.get(name, "")


def status_text(run: Run, phase: Mapping[str, Any] | None) -> str:
    """Return the start of the browser tab's title, e.g. “⚠ Trapped · 207/240 · ” or “Paused · ”.

    static/js/live/run_header.js writes the same.
    """
    parts = [f"⚠ {run.condition.label}"] if run.condition else []
    if run.state not in Run.HELD:
        parts.append(formatting.STATES[run.shown_state])
    elif run.shown_state == "running" and phase and run.iterations:
        parts.append(f"{phase['iteration']}/{run.iterations}")
    return "".join(f"{part} · " for part in parts)


def icon_name(run: Run) -> str:
    """Return the variant of the site's icon for a run, one of ICONS; empty for the plain icon."""
    if run.condition:
        return "watch" if run.condition.state == SICK else run.condition.state
    state = "finished" if run.state == Run.State.STOPPED else run.state
    return state if state in ICONS else ""


def _is_undoable(run: Run) -> bool:
    """Return True if the run's cancellation is pending, or recent enough to be undone."""
    if run.state != Run.State.CANCELLED:
        return run.requested == Run.Request.CANCEL
    return run.ended_at is not None and run.ended_at > timezone.now() - UNDO_TIME
