"""Keyset pagination of trajectories: page 400 costs as much as page 1."""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import BigIntegerField, Case, F, IntegerField, Q, Value, When
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
    "played": F("pk"),
}
"""Sort keys; a leading "-" is descending. Ties are ordered by primary key."""


class BadCursor(ValueError):
    """The cursor does not belong to this order. The message is for users."""

    def __init__(self) -> None:
        super().__init__("This page link does not match the current order; showing the first page.")


@dataclass(frozen=True)
class Page:
    """Trajectories in order, and the cursors of the next and previous pages, if any."""

    items: Sequence[Trajectory]
    next: str | None
    previous: str | None


@dataclass(frozen=True)
class _Place:
    """Position of a row in an order, and whether the page follows or precedes it."""

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
        expected_type = str if sort.removeprefix("-") == "environment" else float
        number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        fits = isinstance(value, str) and "\0" not in value if expected_type is str else number and abs(value) < 2**62
        if made_for != sort or behind not in (0, 1) or not fits or type(pk) is not int or not 0 <= pk < 2**63:
            raise BadCursor
        return cls(value, pk, bool(behind))


def page(queryset: TrajectoryQuerySet, sort: str, cursor: str | None = None, size: int = 50) -> Page:
    """The page at the cursor, or the first. `sort` is a name of SORTS, with "-" for descending. Raises BadCursor."""
    descending = sort.startswith("-")
    at = _Place.read(cursor, sort) if cursor else None
    backwards = at is not None and not at.behind
    rows = queryset.annotate(sort_key=SORTS[sort.removeprefix("-")])
    if at is not None:
        upwards = descending == backwards
        edge = "gte" if upwards else "lte"
        tie = Q(sort_key=at.value) & (Q(pk__gte=at.pk) if backwards else Q(pk__lte=at.pk))
        rows = rows.filter(Q(**{f"sort_key__{edge}": at.value}), ~tie)
    falling = descending != backwards
    order = ("-sort_key" if falling else "sort_key", "-pk" if backwards else "pk")
    items = list(rows.order_by(*order)[: size + 1])
    more, items = len(items) > size, items[:size]
    if backwards:
        items.reverse()

    def place(item: Trajectory, behind: bool) -> str:
        return _Place(item.sort_key, item.pk, behind).cursor(sort)  # type: ignore[attr-defined]

    behind = bool(items) and (more or backwards)
    before = bool(items) and (more if backwards else at is not None)
    return Page(items, place(items[-1], True) if behind else None, place(items[0], False) if before else None)
