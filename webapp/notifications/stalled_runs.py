"""Runs that wait or make no progress: a state that lasts, which each rule reports after its own minutes."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from django.db import transaction

from webapp.core import formatting
from webapp.notifications.models import RunEvent, StalledRun
from webapp.runs.models import Run


@transaction.atomic
def do_track_progress(now: datetime) -> None:
    """Record since when each queued or held run has made no progress."""
    runs = {run.pk: run for run in Run.objects.filter(state__in=(Run.State.QUEUED, *Run.HELD), imported=False)}
    StalledRun.objects.exclude(run__in=runs).delete()
    stalled_runs = {stalled.run_id: stalled for stalled in StalledRun.objects.select_for_update().filter(run__in=runs)}
    for run in runs.values():
        state = Run.State.QUEUED if run.state == Run.State.QUEUED else Run.State.RUNNING
        stalled = stalled_runs.get(run.pk)
        if stalled is None:
            fresh = state == Run.State.QUEUED and run.attempt == 0
            since = run.created_at if fresh else now
            StalledRun.objects.get_or_create(run=run, defaults={"state": state, "seq": run.seq, "since": since})
        elif (stalled.state, stalled.seq) != (state, run.seq):
            stalled.state, stalled.seq, stalled.since = state, run.seq, now
            stalled.save(update_fields=["state", "seq", "since"])


def stalled_events(team_ids: Collection[int], now: datetime) -> list[RunEvent]:
    """Events, not stored, of the teams' runs that wait or make no progress, with the minutes so far."""
    stalled = StalledRun.objects.filter(run__team__in=team_ids).select_related("run__team", "run__author")
    return [_event(entry, now) for entry in stalled.defer("run__log_tail", "run__journal_error").order_by("pk")]


def _event(stalled: StalledRun, now: datetime) -> RunEvent:
    run, since = stalled.run, stalled.since.isoformat()
    minutes = (now - stalled.since).total_seconds() / 60
    details = {"since": since, "minutes": round(minutes, 1)}
    if stalled.state == Run.State.QUEUED:
        return RunEvent(
            kind=RunEvent.Kind.QUEUED,
            run=run,
            key=f"queued:{run.pk}:{since}",
            at=now,
            message=f"In the queue for {formatting.duration(60 * minutes)}. Is a worker running?",
            details=details,
        )
    phase = formatting.phase_text(run.phase_facts, run.length) or "before its first event"
    return RunEvent(
        kind=RunEvent.Kind.STALLED,
        run=run,
        key=f"stalled:{run.pk}:{stalled.seq}:{since}",
        at=now,
        message=f"No event for {formatting.duration(60 * minutes)}. Last phase: {phase}.",
        details=details | {"seq": stalled.seq},
    )
