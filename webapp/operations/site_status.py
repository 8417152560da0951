"""The line on signed-in users' pages about programs of the site that are unavailable or were restarted.

Staff also see if there is no backup of the last night.

Each page costs one look at a file's modification time: the supervisor of `make up` writes the file when something
changes. Sites with other supervisors only see that Redis is unavailable, which each web process notices by itself.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.functional import SimpleLazyObject
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from webapp.core.limits_cache import away_since
from webapp.operations import backup_schedule

FILE = "running.json"
SHOWN_AFTER = 300.0
"""Seconds for which a program that is back is still mentioned."""
EFFECTS = {
    "PostgreSQL": "pages may fail",
    "Redis": "live pages update later, and queued runs start later",
    "Worker": "runs wait, and go on when it is back",
    "Clock": "alerts and mails are late",
    "Web": "pages may fail",
}


@dataclass(frozen=True)
class ReportedOutages:
    """Contents of the file at its modification time."""

    changed_ns: int
    outages: tuple[tuple[str, float, float | None], ...]


_reported: dict[Path, ReportedOutages] = {}


def lines_for(request: HttpRequest) -> list[str]:
    """Return the sentences shown to the user of the request."""
    now = timezone.now()
    backup = backup_schedule.problem(now) if getattr(request.user, "is_staff", False) else ""
    return [*status_lines(now), *([backup] if backup else [])]


def status_lines(now: datetime) -> list[str]:
    """Return a sentence for each program that is unavailable, or was until a few minutes ago."""
    lines, named = [], set()
    for program, since, until in _outages(Path(settings.ECHOSCOPE_DATA_DIR) / FILE):
        if program not in EFFECTS:
            continue
        if until is None:
            named.add(program)
            lines.append(_away(program, since))
        elif now.timestamp() - until < SHOWN_AFTER:
            lines.append(f"{program} was away from {_clock(since)} to {_clock(until)} UTC. It was restarted.")
    since_redis = away_since(settings.REDIS_URL)
    if since_redis is not None and "Redis" not in named:
        lines.append(_away("Redis", since_redis))
    return lines


def _away(program: str, since: float) -> str:
    return f"{program} has not answered since {_clock(since)} UTC: {EFFECTS[program]}."


def _clock(time: float) -> str:
    return f"{datetime.fromtimestamp(time, UTC):%H:%M:%S}"


def _outages(file: Path) -> tuple[tuple[str, float, float | None], ...]:
    """Return program, begin and end of each outage in the file, which is read only after a change."""
    try:
        changed = file.stat().st_mtime_ns
        known = _reported.get(file)
        if known is None or known.changed_ns != changed:
            facts: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
            outages = tuple(
                (outage["program"], outage["since"], outage["until"]) for outage in facts.get("outages", ())
            )
            known = _reported[file] = ReportedOutages(changed, outages)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):  # missing, or from another version
        return ()
    return known.outages


def site_status(request: HttpRequest) -> dict[str, object]:
    """Context processor: the lines, looked up only where a template shows them."""
    return {"site_status": SimpleLazyObject(lambda: lines_for(request))}


@login_required
@require_GET
@never_cache
def status_line(request: HttpRequest) -> HttpResponse:
    """Return only the status line; 204 if there is none."""
    if not lines_for(request):
        return HttpResponse(status=204)
    return render(request, "_site_status.html")
