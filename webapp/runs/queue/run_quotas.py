"""Quotas of teams and runs: queued and running runs, imports, tags, iterations. Each raises QuotaExceeded."""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import Count

from webapp.core import formatting
from webapp.core.quotas import QuotaExceeded, is_reached, quota
from webapp.runs.models import Run
from webapp.teams.daily_use import Kind, do_count_use
from webapp.teams.models import Team


def require_place_in_queue(team_id: int, run_id: int | None = None, *, count: int = 1) -> None:
    """Require room for `count` more queued runs of the team, without counting `run_id` if it is stored already.

    To be called in a transaction, which serialises the launches of a team. Raises QuotaExceeded.
    """
    if not quota("QUEUED_RUNS_PER_TEAM"):
        return
    Team.objects.select_for_update(no_key=True).get(pk=team_id)
    queued = Run.objects.filter(team=team_id, state=Run.State.QUEUED).exclude(pk=run_id or 0).count()
    if count > 1 and is_reached("QUEUED_RUNS_PER_TEAM", queued + count - 1):
        free = max(0, quota("QUEUED_RUNS_PER_TEAM") - queued)
        raise QuotaExceeded(
            f"This launch needs {count} places in the queue, and this team has {free} of its "
            f"{quota('QUEUED_RUNS_PER_TEAM')} left. Choose fewer seeds, or wait until some runs have started; then try "
            "again."
        )
    if is_reached("QUEUED_RUNS_PER_TEAM", queued):
        raise QuotaExceeded(
            f"{formatting.plural(queued, 'run')} of this team already wait in the queue, the most that a team may have "
            "there. Wait until some have started, or cancel some; then try again."
        )


def require_allowed_tags(tags: Sequence[str]) -> None:
    """Require at most as many tags as a run may have."""
    if is_reached("TAGS_PER_RUN", len(tags) - 1):
        raise QuotaExceeded(
            f"A run may have at most {quota('TAGS_PER_RUN')} tags, and this one has {len(tags):,}. Remove some."
        )


def require_allowed_iterations(iterations: int) -> None:
    """Require at most as many iterations as a run that is trained here may have."""
    if is_reached("ITERATIONS_PER_RUN", iterations - 1):
        raise QuotaExceeded(
            f"A run on this site may have at most {quota('ITERATIONS_PER_RUN'):,} iterations, and this one plans "
            f"{iterations:,}. Reduce them, or ask the operator."
        )


def do_count_import(team: Team) -> None:
    """Count an import by the team today."""
    do_count_use(Kind.IMPORTS, team, "This team has imported too many runs today.")


def teams_at_limit() -> set[int]:
    """Return teams that may start no further run until one of their runs has ended. One query, none without a quota."""
    limit = quota("RUNNING_RUNS_PER_TEAM")
    if not limit:
        return set()
    held = Run.objects.filter(state__in=Run.HELD, imported=False).values("team").annotate(held=Count("pk"))
    return {team for team, count in held.values_list("team", "held") if count >= limit}
