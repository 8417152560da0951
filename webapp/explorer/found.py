"""A trajectory's place in the explorer's results: its number, and the ones before and after it."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from django.db.models import Count, Q
from django.urls import reverse

from webapp.core.database import StatementTooSlow, statement_limit
from webapp.explorer.counts import LIMIT, LIMIT_OF_TEXT
from webapp.explorer.open_view import is_sample
from webapp.explorer.trajectory_filters import Filters, filter_trajectories, read_query
from webapp.trajectories.models import Trajectory
from webapp.trajectories.pagination import SORTS, stands_last
from webapp.trajectories.positions import position_query

MAX_FOUND_QUERY = 1_000
"""Maximum characters of a query string in an address of the player."""
SECONDS = 2.0
"""Maximum duration of each statement that finds a place: a place may require sorting the whole run."""


ALL = "sort=-iteration"
"""Query string of all trajectories, without filters."""


def found_query(query: str) -> str:
    """Return the part of a player's address that contains the explorer's filters."""
    return f"found={quote(query or ALL)}"


@dataclass(frozen=True)
class FoundPlace:
    """Place of a trajectory in the results. `number` is from 1, or 0 if there are more than are counted."""

    number: int
    total: int
    previous: str
    """Address of the previous trajectory, "" at the start of the list."""
    next: str
    query: str
    """Query string of the list."""


def read_found(text: str | None, *, inside: bool) -> Filters | None:
    """Return the filters in the address of a player opened from the explorer; None without any, or from a sample."""
    if not text or len(text) > MAX_FOUND_QUERY:
        return None
    filters = read_query(text)
    if is_sample(filters):
        return None
    return filters if inside else filters.without_annotations()


def find_place(trajectory: Trajectory, filters: Filters) -> FoundPlace | None:
    """Return the place of the trajectory in the list; None if it is not in the list, or if this takes too long."""
    try:
        with statement_limit(SECONDS):
            return _place(trajectory, filters)
    except StatementTooSlow:
        return None


def _place(trajectory: Trajectory, filters: Filters) -> FoundPlace | None:
    """Return the place without a time limit; see find_place. Four statements."""
    sort, descending = filters.sort.removeprefix("-"), filters.sort.startswith("-")
    matching = filter_trajectories(trajectory.run, filters).annotate(sort_key=SORTS[sort], last=stands_last(sort))
    sort_values = matching.filter(pk=trajectory.pk).values_list("last", "sort_key").first()
    if sort_values is None:
        return None
    last, key = sort_values
    earlier = _side(last, key, trajectory.pk, smaller=not descending, earlier=True)
    later = _side(last, key, trajectory.pk, smaller=descending, earlier=False)
    limit = LIMIT if filters.text is None else LIMIT_OF_TEXT
    counted = matching.values("pk", "last", "sort_key")[: limit + 1].aggregate(
        all=Count("pk"), before=Count("pk", filter=earlier)
    )
    more = counted["all"] > limit
    onwards = ("last", "-sort_key" if descending else "sort_key", "pk")
    backwards = ("-last", "sort_key" if descending else "-sort_key", "-pk")
    query = filters.query()
    return FoundPlace(
        number=0 if more else counted["before"] + 1,
        total=limit if more else counted["all"],
        previous=_address(matching.filter(earlier).order_by(*backwards).first(), query),
        next=_address(matching.filter(later).order_by(*onwards).first(), query),
        query=query,
    )


def _side(last: int, key: object, pk: int, *, smaller: bool, earlier: bool) -> Q:
    """Return a condition on the rows on one side of a row: by `last` and the key, then by the primary key."""
    side = "lt" if earlier else "gt"
    by_key = Q(last=last, **{f"sort_key__{'lt' if smaller else 'gt'}": key})
    return Q(**{f"last__{side}": last}) | by_key | Q(last=last, sort_key=key, **{f"pk__{side}": pk})


def _address(trajectory: Trajectory | None, query: str) -> str:
    if trajectory is None:
        return ""
    lost = trajectory.lost_at
    there = position_query(lost["turn"], lost["action"]) if lost else ""
    return f"{reverse('trajectory', args=[trajectory.slug])}{there}{'&' if there else '?'}{found_query(query)}"
