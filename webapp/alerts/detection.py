"""What happened to runs, read off the tables: asked twice, it says the same, each event under the same key.

So nothing is lost when a process dies between an event and its alert. What becomes of events is decided in actions.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db.models import F, FloatField, OuterRef, Q, QuerySet, Subquery

from webapp.alerts.models import Rule, Standstill
from webapp.core import formatting
from webapp.runs.models import Alarm, Evaluation, Run

Event = Rule.Event
IMPORTED_WHOLE = timedelta(minutes=10)
"""An imported run that ended so soon after it appeared was over before: nobody waits for it."""


@dataclass(frozen=True)
class AlertEvent:
    """Something that happened to a run. `key` is the same whenever it is asked for."""

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
    """What the rules may want to tell of the time after `after`. Which rule wants what is not decided here."""
    wanted = {event for rule in rules for event in rule.events}
    runs = Run.objects.filter(team__in={rule.team_id for rule in rules}).select_related("author", "team")
    runs = runs.defer("config", "log_tail", "journal_error")
    if wanted & {Event.WATCH, Event.TRAPPED}:
        yield from _alarms(runs, after)
    if wanted & {Event.FAILED, Event.FINISHED}:
        yield from _ends(runs, after)
    if wanted & {Event.REACHED, Event.FELL}:
        yield from _evaluations(runs, after)
    if wanted & {Event.QUEUED, Event.STALLED}:
        yield from _standstills(runs, now)


def _of(runs: QuerySet[Run], ids: set[int]) -> dict[int, Run]:
    return runs.in_bulk(ids) if ids else {}


def _alarms(runs: QuerySet[Run], after: datetime) -> Iterator[AlertEvent]:
    alarms = list(
        Alarm.objects.filter(
            run__in=runs.values("pk"), time__gte=after, state__in=(Event.WATCH, Event.TRAPPED)
        ).order_by("seq")
    )
    known = _of(runs, {alarm.run_id for alarm in alarms})
    for alarm in alarms:
        yield AlertEvent(
            alarm.state,
            known[alarm.run_id],
            f"alarm:{alarm.run_id}:{alarm.seq}",
            alarm.time,
            f"Echo Trap watch: {alarm.state} at iteration {alarm.iteration}. {alarm.message}",
            {"iteration": alarm.iteration, "evidence": alarm.evidence},
        )


def _ends(runs: QuerySet[Run], after: datetime) -> Iterator[AlertEvent]:
    over = ~Q(imported=True, ended_at__lt=F("created_at") + IMPORTED_WHOLE)
    for run in runs.filter(over, state__in=(Run.State.FAILED, Run.State.FINISHED), ended_at__gte=after):
        assert run.ended_at is not None
        failed = run.state == Run.State.FAILED
        told = run.failure if failed else run.end_message
        message = f"Failed after iteration {run.iteration} of {run.iterations}." if failed else "Finished."
        yield AlertEvent(
            Event.FAILED if failed else Event.FINISHED,
            run,
            f"end:{run.pk}:{run.ended_at.isoformat()}",
            run.ended_at,
            f"{message} {told}".strip(),
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
    known = _of(runs, {result.run_id for result in results})
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
        for event, word in ((Event.REACHED, "reached"), (Event.FELL, "fell to")):
            yield AlertEvent(
                event,
                known[result.run_id],
                f"{event}:{result.run_id}:{result.suite}:{result.iteration}",
                result.time,
                f"{result.suite} {word} {formatting.percent(result.success)} after iteration {result.iteration} "
                f"(95 % interval {formatting.percent(result.success_low)} to "
                f"{formatting.percent(result.success_high)}).",
                facts,
                suite=result.suite,
                values=(result.previous, result.success),
            )


def _standstills(runs: QuerySet[Run], now: datetime) -> Iterator[AlertEvent]:
    known = _of(runs, set(Standstill.objects.filter(run__in=runs.values("pk")).values_list("run_id", flat=True)))
    for still in Standstill.objects.filter(run__in=known):
        run, minutes = known[still.run_id], (now - still.since).total_seconds() / 60
        since = still.since.isoformat()
        if still.state == Run.State.QUEUED:
            yield AlertEvent(
                Event.QUEUED,
                run,
                f"queued:{run.pk}:{since}",
                now,
                f"Has been waiting in the queue for {formatting.duration(60 * minutes)}. Is a worker running?",
                {"since": since, "minutes": round(minutes, 1)},
                minutes=minutes,
            )
        else:
            phase = formatting.phase_text(run.phase_facts, run.iterations) or "before its first event"
            yield AlertEvent(
                Event.STALLED,
                run,
                f"stalled:{run.pk}:{still.seq}:{since}",
                now,
                f"Has told nothing for {formatting.duration(60 * minutes)}. It was at: {phase}.",
                {"since": since, "minutes": round(minutes, 1), "seq": still.seq},
                minutes=minutes,
            )


def matches(rule: Rule, happening: AlertEvent, of_the_team: set[tuple[int, int]]) -> bool:
    """Whether the rule tells it. `of_the_team` holds (user, team) of authors who still are in their rule's team."""
    run = happening.run
    if happening.event not in rule.events or run.team_id != rule.team_id or happening.at < rule.since:
        return False
    own = run.author_id is not None and run.author_id == rule.author_id and (run.author_id, run.team_id) in of_the_team
    if run.visibility == Run.Visibility.PRIVATE and not own:
        return False
    match rule.scope:
        case Rule.Scope.OWN if not own:
            return False
        case Rule.Scope.ENVIRONMENT if run.environment != rule.scope_value:
            return False
        case Rule.Scope.TAG if rule.scope_value.lower() not in {str(tag).lower() for tag in run.tags}:
            return False
    match happening.event:
        case Event.REACHED | Event.FELL:
            return _crosses(rule, happening)
        case Event.QUEUED:
            return happening.minutes >= rule.queued_minutes
        case Event.STALLED:
            return happening.minutes >= rule.stalled_minutes
    return True


def _crosses(rule: Rule, happening: AlertEvent) -> bool:
    """Only the evaluation that crosses the threshold counts, not every one beyond it."""
    if (rule.suite and rule.suite != happening.suite) or happening.values is None:
        return False
    before, now = happening.values
    if happening.event == Event.REACHED:
        return now >= rule.threshold and (before is None or before < rule.threshold)
    return now < rule.threshold and before is not None and before >= rule.threshold
