"""Detection of alert events from the tables. Repeatable: the same event always has the same key.

No event is lost if a process dies between the event and its alert.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import FloatField, OuterRef, QuerySet, Subquery

from webapp.core import formatting
from webapp.notifications.models import Rule, StalledRun
from webapp.runs.models import Alarm, Evaluation, Run, RunQuerySet

Event = Rule.Event


@dataclass(frozen=True)
class AlertEvent:
    """An event of a run. `key` identifies it across detections."""

    event: str
    run: Run
    key: str
    at: datetime
    message: str
    details: dict[str, Any] = field(default_factory=dict)
    suite: str = ""
    values: tuple[float | None, float] | None = None  # success of the evaluation before, and of this one
    minutes: float = 0.0


def alert_events(rules: list[Rule], after: datetime, now: datetime) -> Iterator[AlertEvent]:
    """Events after `after` of any kind that a rule names. matches() decides which rule delivers which."""
    kinds = {event for rule in rules for event in rule.events}
    runs = Run.objects.filter(team__in={rule.team_id for rule in rules}).select_related("author", "team")
    runs = runs.defer("config", "log_tail", "journal_error")
    if kinds & {Event.WATCH, Event.TRAPPED}:
        yield from _alarms(runs, after)
    if kinds & {Event.FAILED, Event.FINISHED}:
        yield from _ends(runs, after)
    if kinds & {Event.REACHED, Event.FELL}:
        yield from _evaluations(runs, after)
    if kinds & {Event.QUEUED, Event.STALLED}:
        yield from _stalled_runs(runs, now)


def _of(runs: QuerySet[Run], ids: set[int]) -> dict[int, Run]:
    return runs.in_bulk(ids) if ids else {}


def _alarms(runs: QuerySet[Run], after: datetime) -> Iterator[AlertEvent]:
    alarms = list(
        Alarm.objects.filter(
            run__in=runs.values("pk"), time__gte=after, state__in=(Event.WATCH, Event.TRAPPED)
        ).order_by("seq", "pk")
    )
    by_id = _of(runs, {alarm.run_id for alarm in alarms})
    for alarm in alarms:
        yield AlertEvent(
            alarm.state,
            by_id[alarm.run_id],
            alarm.event_key,
            alarm.time,
            f"Echo Trap: {alarm.state} at iteration {alarm.iteration}. {alarm.message}",
            {"iteration": alarm.iteration, "evidence": alarm.evidence},
        )


def _ends(runs: RunQuerySet, after: datetime) -> Iterator[AlertEvent]:
    for run in runs.completed_after(after):
        assert run.ended_at is not None
        failed = run.state == Run.State.FAILED
        message = f"Failed after iteration {run.iteration} of {run.iterations}." if failed else "Finished."
        yield AlertEvent(
            Event.FAILED if failed else Event.FINISHED,
            run,
            run.end_key,
            run.ended_at,
            f"{message} {run.end_text}".strip(),
            {"failure": run.failure} if failed else {"summary": run.summary},
        )


def _evaluations(runs: QuerySet[Run], after: datetime) -> Iterator[AlertEvent]:
    before = Evaluation.objects.filter(
        run=OuterRef("run"), suite=OuterRef("suite"), iteration__lt=OuterRef("iteration")
    ).order_by("-iteration")
    results = list(
        Evaluation.objects.filter(run__in=runs.values("pk"), time__gte=after)
        .annotate(previous=Subquery(before.values("success")[:1], output_field=FloatField()))
        .order_by("pk")
    )
    by_id = _of(runs, {result.run_id for result in results})
    for result in results:
        facts = {
            "suite": result.suite,
            "iteration": result.iteration,
            "prompts": result.prompts,
            "success": result.success,
            "success_low": result.success_low,
            "success_high": result.success_high,
            "previous_success": result.previous,
        }
        run = by_id[result.run_id]
        for event, word in ((Event.REACHED, "reached"), (Event.FELL, "fell to")):
            yield AlertEvent(
                event,
                run,
                f"{event}:{result.run_id}:{result.suite}:{result.iteration}",
                result.time,
                f"{result.suite} {word} {formatting.percent(result.success)} {run.when(result.iteration)} "
                f"(95% interval {formatting.percent(result.success_low)} to "
                f"{formatting.percent(result.success_high)}).",
                facts,
                suite=result.suite,
                values=(result.previous, result.success),
            )


def _stalled_runs(runs: QuerySet[Run], now: datetime) -> Iterator[AlertEvent]:
    runs = runs.defer(None).defer("log_tail", "journal_error")  # the text of a warm-up needs the settings
    runs_by_id = _of(runs, set(StalledRun.objects.filter(run__in=runs.values("pk")).values_list("run_id", flat=True)))
    for stalled in StalledRun.objects.filter(run__in=runs_by_id):
        run, minutes = runs_by_id[stalled.run_id], (now - stalled.since).total_seconds() / 60
        since = stalled.since.isoformat()
        if stalled.state == Run.State.QUEUED:
            yield AlertEvent(
                Event.QUEUED,
                run,
                f"queued:{run.pk}:{since}",
                now,
                f"In the queue for {formatting.duration(60 * minutes)}. Is a worker running?",
                {"since": since, "minutes": round(minutes, 1)},
                minutes=minutes,
            )
        else:
            phase = formatting.phase_text(run.phase_facts, run.length) or "before its first event"
            yield AlertEvent(
                Event.STALLED,
                run,
                f"stalled:{run.pk}:{stalled.seq}:{since}",
                now,
                f"No event for {formatting.duration(60 * minutes)}. Last phase: {phase}.",
                {"since": since, "minutes": round(minutes, 1), "seq": stalled.seq},
                minutes=minutes,
            )


def matches(rule: Rule, event: AlertEvent, members: set[tuple[int, int]]) -> bool:
    """Whether the rule delivers the event. `members`: (user, team) of the rules' authors who still are in the team."""
    run = event.run
    if event.event not in rule.events or run.team_id != rule.team_id or event.at < rule.since:
        return False
    own = run.author_id is not None and run.author_id == rule.author_id and (run.author_id, run.team_id) in members
    if run.visibility == Run.Visibility.PRIVATE and not (own and rule.reports_private_runs):
        return False
    match rule.scope:
        case Rule.Scope.OWN if not own:
            return False
        case Rule.Scope.ENVIRONMENT if run.environment != rule.scope_value:
            return False
        case Rule.Scope.RUN if run.slug != rule.scope_value:
            return False
        case Rule.Scope.TAG if rule.scope_value.lower() not in {str(tag).lower() for tag in run.tags}:
            return False
    match event.event:
        case Event.REACHED | Event.FELL:
            return _crosses(rule, event)
        case Event.QUEUED:
            return event.minutes >= rule.queued_minutes
        case Event.STALLED:
            return event.minutes >= rule.stalled_minutes
    return True


def _crosses(rule: Rule, event: AlertEvent) -> bool:
    """Only the evaluation that crosses the threshold counts, not every one beyond it."""
    if (rule.suite and rule.suite != event.suite) or event.values is None:
        return False
    before, now = event.values
    if event.event == Event.REACHED:
        return now >= rule.threshold and (before is None or before < rule.threshold)
    return now < rule.threshold and before is not None and before >= rule.threshold
