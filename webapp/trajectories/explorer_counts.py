"""How many trajectories the filters find, how they did, and what a live page needs to count on by itself.

static/js/explorer_counts.js goes on from `live_counts` by the journal's events. Keep both in step: the counts at event
n plus the events n+1 … m are the counts at m.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from django.db.models import Aggregate, Count, Max, Q, Sum

from webapp.runs.models import Run
from webapp.trajectories.explorer import Filters, alarms_of, found, windows
from webapp.trajectories.models import Trajectory, TrajectoryQuerySet

LIMIT = 50_000
"""So many are counted; of more it is only said that there are more."""
LIMIT_OF_TEXT = 5_000
"""The same with a full-text search, where each one costs a look at its turns."""
MOST_OPEN = 3_000
"""With more trajectories than that still to change, a page asks the server instead of counting by itself."""
ASK_THE_SERVER = {"text", "starred", "tag"}
"""Filters that cannot be decided from events."""


@dataclass(frozen=True)
class Facts:
    """What was found; `success` and `reward` (a sum) are those of the `ended` ones. With `more`, only `found` tells."""

    found: int
    ended: int
    success: int
    reward: float
    more: bool = False

    @property
    def share(self) -> float | None:
        """Of the ended ones, how many were solved."""
        return self.success / self.ended if self.ended else None

    @property
    def mean(self) -> float | None:
        """Mean total reward of the ended ones."""
        return self.reward / self.ended if self.ended else None


ENDED = Q(status__in=Trajectory.ENDED)


def _aggregates(within: Q) -> dict[str, Aggregate]:
    return {
        "found": Count("pk", filter=within),
        "ended": Count("pk", filter=within & ENDED),
        "success": Count("pk", filter=within & Q(status=Trajectory.Status.SUCCESS)),
        "reward": Sum("total_reward", filter=within & ENDED, default=0.0),
    }


def facts(run: Run, filters: Filters) -> Facts:
    """One statement, which looks at no more than the limit."""
    limit = LIMIT if filters.text is None else LIMIT_OF_TEXT
    looked_at = found(run, filters).values("pk", "status", "total_reward")[: limit + 1]
    counted = Facts(**looked_at.aggregate(**_aggregates(Q(pk__isnull=False))))
    return counted if counted.found <= limit else Facts(limit, 0, 0, 0.0, more=True)


def live_counts(run: Run, filters: Filters, now: Facts) -> dict[str, Any]:
    """What a page goes on counting from. To be called in the same `one_moment` as `facts`.

    seq, attempt      of the run
    now               the facts at that event
    by_itself         whether the rest is there; else the page asks the server when something has happened
    filters           those that are set, by name
    newest            iteration: trajectories of earlier ones no longer change, except those in `open`
    base              the facts without those in `open`
    open              what may still change or come into the filters: id iteration split suite environment group kept
                      status turns actions tokens reward broken end lost error
    windows           iterations inside alarms: [from, up to but without, or null]
    """
    seq, attempt = Run.objects.values_list("seq", "attempt").get(pk=run.pk)
    known: dict[str, Any] = {"seq": seq, "attempt": attempt, "now": asdict(now), "by_itself": False}
    asked = filters.asked()
    if now.more or ASK_THE_SERVER & asked.keys():
        return known
    current = Trajectory.objects.current().filter(run=run)
    newest = current.aggregate(newest=Max("iteration"))["newest"] or 0
    still_open = Q(iteration__gte=newest) | ~ENDED | Q(split="train", group__kept__isnull=True)
    opened = list(_open(current.filter(still_open)))
    if len(opened) > MOST_OPEN:
        return known
    known |= {"by_itself": True, "filters": asked, "newest": newest, "open": opened}
    settled = found(run, filters).exclude(still_open) if opened else found(run, filters)
    known["base"] = settled.aggregate(**_aggregates(Q(pk__isnull=False)))
    known["windows"] = windows(alarms_of(run))
    return known


_COLUMNS = {
    "id": "key", "iteration": "iteration", "split": "split", "suite": "group__suite", "group": "group__number",
    "environment": "group__environment", "kept": "group__kept", "status": "status", "turns": "turn_count",
    "actions": "action_count", "tokens": "token_count", "reward": "total_reward", "broken": "format_error",
    "end": "end", "lost": "lost_at", "error": "error",
}  # fmt: skip


def _open(queryset: TrajectoryQuerySet) -> Iterator[dict[str, Any]]:
    for values in queryset.order_by("pk").values_list(*_COLUMNS.values())[: MOST_OPEN + 1]:
        yield dict(zip(_COLUMNS, values, strict=True))
