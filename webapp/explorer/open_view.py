"""The saved view or scanner with which the explorer is open, the labels of its attempts, and what they say about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainer.metrics.success_difference import Rate, wilson
from webapp.core import formatting
from webapp.explorer.scanners import SCANNERS, Scanner
from webapp.explorer.trajectory_filters import Filters, filter_trajectories, read_query
from webapp.runs.models import Run, readable_by
from webapp.saved_views.models import Label, SavedView
from webapp.teams.models import User
from webapp.trajectories.models import Trajectory, TrajectoryQuerySet

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

NOT_FOUND = "-"
"""Prefix of a view in addresses: a random sample of what the view does not find."""
SAMPLE_SIZE = 50
DRAWN = 500
"""Attempts from which a sample is drawn."""
MAX_LABELS = 1000
"""Labels that are read for precision and missed share, the newest ones."""


@dataclass(frozen=True)
class OpenView:
    """A view of the explorer that a team labels.

    Attributes:
        ref: name in addresses: the slug of a scanner, or the key of a saved view.
        view: the saved view; of a scanner, the view by which the team watches it, if it does.
        scanner: slug of the scanner to which its labels belong; empty: they belong to the saved view.
    """

    ref: str
    name: str
    sentence: str
    filters: Filters
    view: SavedView | None
    scanner: str

    @property
    def label_key(self) -> dict[str, Any]:
        """Columns that identify its labels."""
        return {"view": None if self.scanner else self.view, "scanner": self.scanner}

    @property
    def query(self) -> str:
        """Query string that opens the view."""
        return self.filters.query(view=self.ref)

    @property
    def not_found_query(self) -> str:
        """Query string of a random sample of what the view does not find."""
        return Filters(view=NOT_FOUND + self.ref).query()


def get_view(team_id: int, ref: str) -> OpenView | None:
    """Return the team's view, or the scanner, with that name in addresses; None if there is none."""
    shared = SavedView.objects.shared_with(team_id)
    if ref.isdecimal():
        view = shared.filter(pk=int(ref)).first() if len(ref) < 19 else None
        return None if view is None else OpenView(ref, view.name, "", read_query(view.query), view, view.scanner)
    scanner = get_scanner(ref)
    if scanner is None:
        return None
    filters = read_query(scanner.query)
    watched = shared.watched().filter(scanner=ref, query=filters.query()).first()
    return OpenView(ref, scanner.name, scanner.sentence, filters, watched, ref)


def get_scanner(slug: str) -> Scanner | None:
    """Return the shipped scanner of that slug."""
    return next((scanner for scanner in SCANNERS if scanner.slug == slug), None)


def open_view(run: Run, filters: Filters) -> OpenView | None:
    """Return the view that is open with these filters: they contain all filters of the view, or ask for a sample."""
    view = get_view(run.team_id, filters.view.removeprefix(NOT_FOUND)) if filters.view else None
    if view is None or is_sample(filters):
        return view
    active = filters.active()
    return view if all(active.get(name) == value for name, value in view.filters.active().items()) else None


def is_sample(filters: Filters) -> bool:
    """Return True if the filters ask for a random sample of what their view does not find."""
    return filters.view.startswith(NOT_FOUND)


def draw_sample(run: Run, view: OpenView) -> TrajectoryQuerySet:
    """Return a random sample of the run's ended attempts that the view does not find, the same one each time.

    Slugs are random, so the first ones in alphabetical order are a sample.
    """
    ended = Trajectory.objects.current().filter(run=run, status__in=Trajectory.ENDED)
    if view.filters.split is not None:
        ended = ended.filter(split=view.filters.split)
    drawn = list(ended.order_by("slug").values_list("pk", flat=True)[:DRAWN])
    found = _found(Run.objects.filter(pk=run.pk), view, drawn)
    return Trajectory.objects.filter(pk__in=[pk for pk in drawn if pk not in found][:SAMPLE_SIZE])


def finds(view: OpenView, trajectory: Trajectory) -> bool:
    """Return True if the attempt matches the filters of the view."""
    return bool(_found(Run.objects.filter(pk=trajectory.run_id), view, [trajectory.pk]))


def _found(runs: Any, view: OpenView, attempts: Iterable[int]) -> set[int]:
    return set(filter_trajectories(runs, view.filters).filter(pk__in=attempts).values_list("pk", flat=True))


def labels_of(view: OpenView, attempts: Iterable[Trajectory]) -> dict[int, Label]:
    """Return the labels of these attempts by attempt, with their authors. One query."""
    labels = Label.objects.filter(**view.label_key, trajectory__in=[attempt.pk for attempt in attempts])
    return {label.trajectory_id: label for label in labels.select_related("author")}


@dataclass(frozen=True)
class LabelSummary:
    """What labels say about a view.

    Attributes:
        right, found: labelled attempts that the view finds, and how many of them are what it looks for.
        missed, unfound: labelled attempts of random samples of the rest, and how many of them the view should find.
    """

    right: int
    found: int
    missed: int
    unfound: int

    @property
    def precision(self) -> Rate | None:
        """Share of the attempts that the view finds and that are what it looks for; None without a label."""
        return wilson(self.right, self.found) if self.found else None

    @property
    def missed_share(self) -> Rate | None:
        """Share of the attempts that the view does not find and that it should; None without a label."""
        return wilson(self.missed, self.unfound) if self.unfound else None

    @property
    def precision_text(self) -> str:
        if self.precision is None:
            return "not known: no attempt that it found is labelled"
        wrong = formatting.plural(self.found - self.right, "false alarm")
        return f"{_interval(self.precision)}: {self.right:,} of {self.found:,} labelled are right, {wrong}"

    @property
    def missed_text(self) -> str:
        if self.missed_share is None:
            return "not known: no attempt that it did not find is labelled"
        return f"{_interval(self.missed_share)}: {self.missed:,} of {self.unfound:,} labelled that it did not find"


def _interval(rate: Rate) -> str:
    low, high = formatting.percent(rate.low), formatting.percent(rate.high)
    return f"{formatting.percent(rate.value)} (95% interval {low} to {high})"


def summarize_labels(user: User | AnonymousUser, team_id: int, view: OpenView) -> LabelSummary:
    """Return what the team's labels on attempts that the user may read say about the view. At most two queries.

    The labels are compared with the present filters of the view. A label that was not given in a random sample counts
    only while the view finds its attempt: people look for what is missed where they expect it.
    """
    labels = Label.objects.filter(readable_by(user, "trajectory__run__"), **view.label_key)
    labels = labels.filter(trajectory__run__team=team_id, trajectory__superseded=False).order_by("-labelled_at", "-pk")
    rows = list(labels.values_list("trajectory", "right", "sampled")[:MAX_LABELS])
    found = _found(Run.objects.filter(team=team_id), view, [pk for pk, _, _ in rows]) if rows else set()
    right = [right for pk, right, _ in rows if pk in found]
    missed = [right for pk, right, sampled in rows if pk not in found and sampled]
    return LabelSummary(sum(right), len(right), sum(missed), len(missed))
