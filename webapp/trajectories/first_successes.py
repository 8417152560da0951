"""Puzzles of an evaluation that the policy solved for the first time, after it had failed at them before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Count, F, FloatField, Q
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast

from webapp.core.formatting import plural
from webapp.runs.main_suite import main_suite
from webapp.runs.models import Evaluation, Run
from webapp.trajectories.models import Trajectory


@dataclass(frozen=True)
class FirstSuccess:
    """A puzzle that was solved for the first time.

    Attributes:
        number: number of its group, from 0.
        slug: slug of the first attempt that succeeded.
        failures: failed attempts in earlier evaluations, at least one.
        distance: number of actions that the solver needs from the initial state; None if it is unknown.
        moves: noun for actions, “move” on a grid.
    """

    number: int
    slug: str
    failures: int
    distance: int | None
    moves: str

    @property
    def difficulty(self) -> tuple[int, int]:
        """Return the rank among the puzzles of a suite: the solver's distance, then the number of failed attempts."""
        return self.distance or 0, self.failures

    @property
    def facts(self) -> str:
        """Return a line such as “9 moves, 3 failed attempts before”."""
        distance = f"{plural(self.distance, self.moves)}, " if self.distance else ""
        return f"{distance}{plural(self.failures, 'failed attempt')} before"


@dataclass(frozen=True)
class FirstSuccesses:
    """The first successes of an evaluation, the hardest puzzle first; at least one.

    Attributes:
        when: point of training, such as “after iteration 24”.
        noun: noun for an initial state on the run's pages (Run.task_noun).
    """

    iteration: int
    when: str
    noun: str
    puzzles: Sequence[FirstSuccess]

    @property
    def hardest(self) -> FirstSuccess:
        return self.puzzles[0]

    @property
    def sentence(self) -> str:
        """Return a sentence for pages, previews and the inbox with their number and the hardest puzzle."""
        puzzle = f"{self.noun} {self.hardest.number + 1}"
        if len(self.puzzles) == 1:
            return f"First success on {puzzle}, {self.when} ({self.hardest.facts})."
        count = plural(len(self.puzzles), self.noun)
        return f"First success on {count}, {self.when}. The hardest is {puzzle} ({self.hardest.facts})."


def first_successes(run: Run, suite: str, iteration: int, *, harder_than: int = -1) -> FirstSuccesses | None:
    """Return the first successes of an evaluation, or None if there are none. At most two queries.

    Args:
        harder_than: omit puzzles that the solver solves with this many actions or fewer.
    """
    evaluated = Trajectory.objects.current().filter(run=run, split="eval", group__suite=suite)
    solved = (
        evaluated.filter(iteration=iteration, status=Trajectory.Status.SUCCESS)
        .annotate(
            distance=Cast(KeyTextTransform("distance", "group__hint"), FloatField()),
            kind=KeyTextTransform("kind", "group__board"),
        )
        .order_by("-member")
        .values_list("group__number", "slug", "distance", "kind")
    )
    candidates = {
        number: (slug, None if distance is None else int(distance), "move" if kind == "grid" else "action")
        for number, slug, distance, kind in solved
        if (distance or 0) > harder_than
    }
    if not candidates:
        return None
    earlier = (
        evaluated.filter(iteration__lt=iteration, group__number__in=candidates, status__in=Trajectory.COUNTED)
        .values(number=F("group__number"))
        .annotate(failures=Count("pk"), successes=Count("pk", filter=Q(status=Trajectory.Status.SUCCESS)))
        .filter(successes=0)
        .values_list("number", "failures")
    )
    found = [
        FirstSuccess(number, slug, failures, distance, moves)
        for number, failures in earlier
        for slug, distance, moves in [candidates[number]]
    ]
    found.sort(key=lambda puzzle: (*(-rank for rank in puzzle.difficulty), puzzle.number))
    return FirstSuccesses(iteration, run.when(iteration), run.task_noun, found) if found else None


def newest_first_successes(run: Run) -> FirstSuccesses | None:
    """Return the first successes of the newest evaluation of the run's main suite, or None. At most three queries."""
    evaluations = list(Evaluation.objects.filter(run=run).only("suite", "iteration"))
    suite = main_suite(evaluations, run.environment)
    iterations = [one.iteration for one in evaluations if one.suite == suite]
    return first_successes(run, suite, max(iterations)) if len(iterations) > 1 else None
