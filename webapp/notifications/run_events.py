"""Records events of runs, in the transaction in which they happen. Each key is recorded once."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from django.dispatch import receiver
from django.utils import timezone

from trainer.journal.events import Faults
from webapp.annotations.actions import commented
from webapp.annotations.models import Comment
from webapp.core import formatting
from webapp.notifications.models import Rule, RunEvent
from webapp.runs.actions import run_ended
from webapp.runs.faults import list_faults, titles
from webapp.runs.main_suite import main_suite
from webapp.runs.models import Alarm, Evaluation, Run
from webapp.saved_views.models import SavedView
from webapp.trajectories.first_successes import first_successes

LOOK_BACK = timedelta(days=7)
"""Earlier events, for example of an old journal that is read again, are not recorded."""
IMPORTED_WHOLE = timedelta(minutes=10)
"""An imported run that ended within this time was over before its import, so its end is no event."""


def record_alarms(alarms: Iterable[Alarm]) -> None:
    """Record alarms of the Echo Trap."""
    _record(
        RunEvent(
            kind=alarm.state,
            run=alarm.run,
            key=alarm.event_key,
            at=alarm.time,
            where=f"at iteration {alarm.iteration}",
            message=alarm.message,
            details={"iteration": alarm.iteration, "evidence": alarm.evidence},
        )
        for alarm in alarms
        if alarm.state in (Rule.Event.WATCH, Rule.Event.TRAPPED)
    )


def record_faults(run: Run, event: Faults) -> None:
    """Record that a run is sick, if it has a fault now that `run.faults` did not have."""
    before = {fault["cause"] for fault in run.faults}
    new = [fault for fault in event.present if fault.cause not in before]
    if not new:
        return
    present = [fault.model_dump() for fault in event.present]
    sick = RunEvent(
        kind=Rule.Event.SICK,
        run=run,
        key=f"fault:{run.pk}:{new[0].cause}:{new[0].since}",
        at=datetime.fromtimestamp(event.time, tz=UTC),
        where=f"at iteration {event.iteration}",
        message=f"{titles(present)}. {list_faults(present)[0].fault.text}",
        details={"iteration": event.iteration, "faults": present},
    )
    _record([sick])


def record_share(run: Run, view: SavedView, iteration: int, share: float) -> None:
    """Record that the share of a watched view is above its threshold: once for a run and view.

    Runs that ended before the view was watched, or were imported after their end, raise no alert.
    """
    assert view.threshold is not None
    assert view.watched_since is not None
    if run.ended_at is not None and (run.ended_at < view.watched_since or _is_imported_whole(run)):
        return
    now, threshold = formatting.percent(share), formatting.percent(view.threshold)
    event = RunEvent(
        kind=Rule.Event.SHARE,
        run=run,
        key=f"share:{run.pk}:{view.pk}",
        at=run.ended_at or timezone.now(),
        where=f"at iteration {iteration}",
        message=f"“{view.name}” matches {now} of its training attempts, more than {threshold}.",
        details={
            "view": view.name,
            "query": view.query,
            "metric": view.metric,
            "iteration": iteration,
            "share": share,
            "threshold": view.threshold,
        },
    )
    _record([event])


def record_evaluation(run: Run, evaluation: Evaluation) -> None:
    """Record an evaluation, with the success rate of the same suite's previous evaluation."""
    evaluations = Evaluation.objects.filter(run=run)
    earlier = evaluations.filter(suite=evaluation.suite, iteration__lt=evaluation.iteration).order_by("-iteration")
    facts = {
        name: getattr(evaluation, name)
        for name in ("suite", "iteration", "prompts", "success", "success_low", "success_high")
    }
    event = RunEvent(
        kind=RunEvent.EVALUATION,
        run=run,
        key=f"evaluation:{run.pk}:{evaluation.suite}:{evaluation.iteration}",
        at=evaluation.time,
        where=run.when(evaluation.iteration),
        details=facts | {"previous_success": earlier.values_list("success", flat=True).first()},
    )
    _record([event])
    if _is_recent(event) and evaluation.suite == main_suite(evaluations.only("suite"), run.environment):
        _record_first_successes(run, evaluation)


def _record_first_successes(run: Run, evaluation: Evaluation) -> None:
    """Record the first successes of an evaluation: of a run's first such evaluation, then of each with a harder puzzle.

    So a run has few of these events, however often it is evaluated.
    """
    latest = RunEvent.objects.filter(run=run, kind=RunEvent.SOLVED).order_by("-pk").values_list("details", flat=True)
    harder_than = next((int(details["distance"]) for details in latest[:1]), -1)
    found = first_successes(run, evaluation.suite, evaluation.iteration, harder_than=harder_than)
    if found is None:
        return
    event = RunEvent(
        kind=RunEvent.SOLVED,
        run=run,
        key=f"solved:{run.pk}:{evaluation.iteration}",
        at=evaluation.time,
        message=found.sentence,
        details={"iteration": evaluation.iteration, "distance": found.hardest.distance or 0},
    )
    _record([event])


@receiver(run_ended)
def _record_end(run: Run, **kwargs: Any) -> None:
    assert run.ended_at is not None
    kinds = {Run.State.FAILED: Rule.Event.FAILED, Run.State.FINISHED: Rule.Event.FINISHED}
    kind = kinds.get(Run.State(run.state))
    if kind is None or _is_imported_whole(run):
        return
    event = RunEvent(
        kind=kind,
        run=run,
        key=f"end:{run.pk}:{run.ended_at.isoformat()}",
        at=run.ended_at,
        where=f"after iteration {run.iteration} of {run.iterations}" if run.iterations else "",
        message=run.end_text,
        details={"failure": run.failure} if kind == Rule.Event.FAILED else {"summary": run.summary},
    )
    _record([event])


@receiver(commented)
def _record_comment(comment: Comment, **kwargs: Any) -> None:
    event = RunEvent(
        kind=RunEvent.COMMENT,
        run=comment.trajectory.run,
        comment=comment,
        key=f"comment:{comment.slug}",
        at=comment.created_at,
    )
    _record([event])


def _is_imported_whole(run: Run) -> bool:
    return run.imported and run.ended_at is not None and run.ended_at < run.created_at + IMPORTED_WHOLE


def _record(events: Iterable[RunEvent]) -> None:
    RunEvent.objects.bulk_create(filter(_is_recent, events), ignore_conflicts=True)


def _is_recent(event: RunEvent) -> bool:
    return event.at >= timezone.now() - LOOK_BACK


def do_dispatch_again(team_id: int, since: datetime) -> None:
    """Dispatch the team's events once more for a restored subscription. Keys prevent repeated reports to others."""
    RunEvent.objects.filter(run__team=team_id, dispatched_at__gte=since).update(dispatched_at=None)
