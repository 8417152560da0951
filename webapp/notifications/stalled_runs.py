"""Runs that wait or make no progress: a lasting state, which each rule reports after its number of minutes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from webapp.core import formatting
from webapp.notifications.models import Rule, RunEvent
from webapp.runs.models import Run


def stalled_events(rules: Sequence[Rule], now: datetime) -> list[RunEvent]:
    """Return unstored events of the runs that have made no progress for as long as one of the rules allows."""
    minutes = min(min(rule.queued_minutes, rule.stalled_minutes) for rule in rules)
    runs = Run.objects.filter(
        team__in={rule.team_id for rule in rules},
        state__in=(Run.State.QUEUED, *Run.HELD),
        imported=False,
        progressed_at__lte=now - timedelta(minutes=minutes),
    )
    runs = runs.select_related("team", "author").defer("log_tail", "journal_error")
    return [_event(run, now) for run in runs.order_by("pk")]


def _event(run: Run, now: datetime) -> RunEvent:
    since = run.progressed_at.isoformat()
    seconds = (now - run.progressed_at).total_seconds()
    details = {"since": since, "minutes": round(seconds / 60, 1)}
    if run.state == Run.State.QUEUED:
        kind, message = Rule.Event.QUEUED, f"In the queue for {formatting.duration(seconds)}. Is a worker running?"
    else:
        phase = formatting.phase_text(run.phase_facts, run.length) or "before its first event"
        kind, message = Rule.Event.STALLED, f"No event for {formatting.duration(seconds)}. Last phase: {phase}."
        details["seq"] = run.seq
    return RunEvent(kind=kind, run=run, key=f"{kind}:{run.pk}:{since}", at=now, message=message, details=details)
