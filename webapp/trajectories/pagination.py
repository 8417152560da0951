"""Keyset pagination of trajectories: page 400 costs as much as page 1."""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import BigIntegerField, Case, F, FloatField, IntegerField, Q, Value, When
from django.db.models.expressions import Combinable
from django.db.models.functions import Cast, Coalesce

from webapp.trajectories.models import Trajectory, TrajectoryQuerySet


def _ranked(*conditions: Q) -> Case:
    ranks = [When(condition, then=Value(rank)) for rank, condition in enumerate(conditions)]
    return Case(*ranks, default=Value(len(ranks)), output_field=IntegerField())


SORTS: dict[str, Combinable] = {
    "iteration": F("iteration"),
    "place": Cast("group__number", BigIntegerField()) * 1_000_000 + F("member"),
    "environment": F("group__environment"),
    "outcome": _ranked(
        Q(status=Trajectory.Status.SUCCESS),
        Q(status=Trajectory.Status.FAILED, lost_at__isnull=True),
        Q(status=Trajectory.Status.FAILED),
        Q(status=Trajectory.Status.INTERRUPTED),
        Q(status=Trajectory.Status.UNKNOWN),
        Q(status=Trajectory.Status.PLAYING),
    ),
    "mark": Coalesce(F("worst_mark"), Value(Trajectory.WorstMark.UNKNOWN - 1), output_field=IntegerField()),
    "reward": F("total_reward"),
    "turns": F("turn_count"),
    "actions": F("action_count"),
    "tokens": Coalesce(Cast("token_count", BigIntegerField()), Value(-1), output_field=BigIntegerField()),
    "format": Coalesce(Cast("format_error", IntegerField()), Value(-1), output_field=IntegerField()),
    "kept": _ranked(Q(group__kept=True), Q(group__kept=False)),
    "mismatch": F("mismatch"),
    "played": F("pk"),
}
"""Sort keys; a leading "-" is descending. Ties are ordered by primary key."""
KNOWN = {"reward": Q(rewarded=True), "mismatch": Q(mismatch__isnull=False)}
"""Sorts in which rows without a value come last in both directions → condition on rows with a value."""


def stands_last(sort: str) -> Combinable:
    """Return 1 for rows that come last in a sort (a name of SORTS) because they have no value, and 0 for others."""
    return _ranked(KNOWN[sort]) if sort in KNOWN else Value(0, output_field=IntegerField())


class BadCursor(ValueError):
    """The cursor does not belong to this order. The message is for users."""

    def __init__(self) -> None:
        super().__init__("This page link does not match the current order; showing the first page.")


@dataclass(frozen=True)
class CursorPage:
    """Trajectories in order, and the cursors of the next and previous pages, if any."""

    items: Sequence[Trajectory]
    next: str | None
    previous: str | None


@dataclass(frozen=True)
class _Place:
    """Position of a row in an order; `behind`: the page follows the row. `value` is None for rows without one."""

    value: Any
    pk: int
    behind: bool

    def cursor(self, sort: str) -> str:
        text = json.dumps([sort, int(self.behind), self.value, self.pk], separators=(",", ":"))
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    @classmethod
    def read(cls, cursor: str, sort: str) -> _Place:
        try:
            text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
            made_for, behind, value, pk = json.loads(text)
        except (binascii.Error, ValueError, TypeError, RecursionError):
            raise BadCursor from None
        name = sort.removeprefix("-")
        expected_type = str if name == "environment" else float
        number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        fits = isinstance(value, str) and "\0" not in value if expected_type is str else number and abs(value) < 2**62
        fits = fits or (value is None and name in KNOWN)
        if made_for != sort or behind not in (0, 1) or not fits or type(pk) is not int or not 0 <= pk < 2**63:
            raise BadCursor
        return cls(value, pk, bool(behind))


def _beyond(at: _Place, *, upwards: bool) -> Q:
    """Return a condition on the rows beyond the place, among the rows with a value or among those without."""
    if at.value is None:
        return Q(pk__gt=at.pk) if at.behind else Q(pk__lt=at.pk)
    tie = Q(sort_key=at.value) & (Q(pk__lte=at.pk) if at.behind else Q(pk__gte=at.pk))
    return Q(**{f"sort_key__{'gte' if upwards else 'lte'}": at.value}) & ~tie


def page(queryset: TrajectoryQuerySet, sort: str, cursor: str | None = None, size: int = 50) -> CursorPage:
    """Return the page at the cursor, or the first. `sort`: a name of SORTS, or "-" and a name. Raises BadCursor."""
    descending = sort.startswith("-")
    at = _Place.read(cursor, sort) if cursor else None
    backwards = at is not None and not at.behind
    name = sort.removeprefix("-")
    rows = queryset.annotate(sort_key=SORTS[name])
    known = KNOWN.get(name)
    parts = [rows if known is None else rows.filter(known)]
    if known is not None:  # a separate statement, for the index of the preceding rows
        parts.append(queryset.exclude(known).annotate(sort_key=Value(None, output_field=FloatField())))
    if at is not None:
        here = 1 if at.value is None else 0
        parts = parts[: here + 1] if backwards else parts[here:]
        first = -1 if backwards else 0
        parts[first] = parts[first].filter(_beyond(at, upwards=descending == backwards))
    falling = descending != backwards
    order = ("-sort_key" if falling else "sort_key", "-pk" if backwards else "pk")
    items: list[Trajectory] = []
    for part in reversed(parts) if backwards else parts:
        if len(items) <= size:
            items += part.order_by(*order)[: size + 1 - len(items)]
    more, items = len(items) > size, items[:size]
    if backwards:
        items.reverse()

    def place(item: Trajectory, behind: bool) -> str:
        return _Place(item.sort_key, item.pk, behind).cursor(sort)  # type: ignore[attr-defined]

    has_next = bool(items) and (more or backwards)
    has_previous = bool(items) and (more if backwards else at is not None)
    return CursorPage(
        items, place(items[-1], True) if has_next else None, place(items[0], False) if has_previous else None
    )
