"""Decides which events an alert rule reports."""

from __future__ import annotations

from webapp.notifications.models import Rule, RunEvent
from webapp.runs.models import Run


def reported_as(rule: Rule, event: RunEvent, members: set[tuple[int, int]]) -> str | None:
    """Return the rule's event that this event is reported as; None if the rule does not report it.

    Args:
        members: (user, team) of the rules' authors who are still in the team.
    """
    name = _name(rule, event)
    if name not in rule.events or event.at < rule.since or not _covers(rule, event.run, members):
        return None
    return name


def _name(rule: Rule, event: RunEvent) -> str | None:
    match event.kind:
        case RunEvent.EVALUATION:
            return _crossing(rule, event)
        case Rule.Event.QUEUED if event.details["minutes"] < rule.queued_minutes:
            return None
        case Rule.Event.STALLED if event.details["minutes"] < rule.stalled_minutes:
            return None
    return event.kind


def _crossing(rule: Rule, event: RunEvent) -> str | None:
    """Return the event of an evaluation that crosses the threshold; later evaluations beyond it do not count."""
    if rule.suite and rule.suite != event.details["suite"]:
        return None
    previous, now = event.details["previous_success"], event.details["success"]
    if now >= rule.threshold:
        return Rule.Event.REACHED if previous is None or previous < rule.threshold else None
    return Rule.Event.FELL if previous is not None and previous >= rule.threshold else None


def _covers(rule: Rule, run: Run, members: set[tuple[int, int]]) -> bool:
    is_own_run = (
        run.author_id is not None and run.author_id == rule.author_id and (run.author_id, run.team_id) in members
    )
    if run.team_id != rule.team_id:
        return False
    if run.visibility == Run.Visibility.PRIVATE and not (is_own_run and rule.reports_private_runs):
        return False
    match rule.scope:
        case Rule.Scope.OWN:
            return is_own_run
        case Rule.Scope.ENVIRONMENT:
            return run.environment == rule.scope_value
        case Rule.Scope.RUN:
            return run.slug == rule.scope_value
        case Rule.Scope.TAG:
            return rule.scope_value.lower() in {str(tag).lower() for tag in run.tags}
    return True
