"""Recently learned puzzles of a run: failed in earlier evaluations, and solved in every one since."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Count, Max, Q

from webapp.runs.models import Run
from webapp.trajectories.models import Trajectory

SHOWN = 5


@dataclass(frozen=True)
class LearnedPuzzle:
    """An evaluation puzzle that the policy has learned.

    Attributes:
        number: number of its group, from 0.
        iteration: evaluation since which every attempt succeeds.
        failures: number of failed attempts before.
        slug: slug of its first attempt in that evaluation.
    """

    number: int
    iteration: int
    failures: int
    slug: str


def learned_lately(run: Run, suite: str, evaluated: Sequence[int]) -> list[LearnedPuzzle]:
    """Return the most recently learned puzzles of a suite, the newest first. Two queries.

    Args:
        evaluated: iterations of the suite's evaluations, in order.
    """
    failed, solved = Q(status=Trajectory.Status.FAILED), Q(status=Trajectory.Status.SUCCESS)
    attempts = Trajectory.objects.current().filter(run=run, split="eval", group__suite=suite)
    puzzles = attempts.values_list("group__number").annotate(
        last_failure=Max("iteration", filter=failed),
        last_success=Max("iteration", filter=solved),
        failures=Count("pk", filter=failed),
    )
    learned = {}
    for number, last_failure, last_success, failures in puzzles:
        since = next((at for at in evaluated if last_failure is not None and at > last_failure), None)
        if since is not None and last_success is not None and last_success >= since:
            learned[number] = (since, failures)
    latest = sorted(learned, key=lambda number: (-learned[number][0], -learned[number][1], number))[:SHOWN]
    firsts = {
        (number, iteration): slug
        for number, iteration, slug in attempts.filter(
            group__number__in=latest, iteration__in={learned[number][0] for number in latest}
        )
        .order_by("-member")
        .values_list("group__number", "iteration", "slug")
    }
    return [
        LearnedPuzzle(number, *learned[number], firsts[number, learned[number][0]])
        for number in latest
        if (number, learned[number][0]) in firsts
    ]
