"""Grid of tasks by iterations: how often each initial state was solved, each time it was played."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db.models import Count, Q, Sum

from webapp.runs.models import Run
from webapp.trajectories.models import Group, Trajectory

MAX_TASKS, MAX_CELLS = 2000, 200_000
"""Largest grid: the tasks that were played most recently, and the newest iterations."""


@dataclass(frozen=True)
class Part:
    """A part of a run that has a grid of its own: its training, or an evaluation suite."""

    split: str
    suite: str
    tasks: int
    iterations: int

    @property
    def repeats(self) -> bool:
        """True if tasks were played in several iterations, without which a grid shows nothing."""
        return self.iterations > 1


class _Row(NamedTuple):
    """A group: its iteration and number, attempts with a known success, with success and with a reward, its sum."""

    iteration: int
    number: int
    counted: int
    solved: int
    rewarded: int
    reward: float


def load_parts(run: Run) -> list[Part]:
    """Return the parts of a run with groups: evaluation suites first, the run's own before others."""
    rows = (
        Group.objects.filter(run=run, superseded=False)
        .values("split", "suite")
        .annotate(tasks=Count("seed", distinct=True), iterations=Count("iteration", distinct=True))
    )
    parts = [Part(row["split"], row["suite"], row["tasks"], row["iterations"]) for row in rows]
    return sorted(parts, key=lambda part: (part.split != "eval", part.suite != run.environment, part.suite))


def load_grid(run: Run, split: str, suite: str) -> dict[str, Any]:
    """Return the grid of a part as plain data for static/js/pages/task_grid.js.

    Returns:
        `iterations`: ascending. `tasks`: each with its `environment`, its `seed`, and `cells`: lists of the index of
        the iteration, the number of the group, attempts that ended, attempts that succeeded, and the mean reward or
        null. `left_out`: numbers of tasks and of iterations beyond the largest grid.
    """
    groups = Group.objects.filter(run=run, superseded=False, split=split, suite=suite)
    every = sorted(groups.values_list("iteration", flat=True).distinct())
    counted, solved = Q(trajectories__status__in=Trajectory.COUNTED), Q(trajectories__status=Trajectory.Status.SUCCESS)
    rewarded = Q(trajectories__status__in=Trajectory.ENDED, trajectories__rewarded=True)
    rows = (
        groups.order_by("-iteration", "-number")
        .annotate(
            counted=Count("trajectories", filter=counted),
            solved=Count("trajectories", filter=solved),
            rewarded=Count("trajectories", filter=rewarded),
            reward=Sum("trajectories__total_reward", filter=rewarded, default=0.0),
        )
        .values_list("environment", "seed", "iteration", "number", "counted", "solved", "rewarded", "reward")
    )[:MAX_CELLS]
    tasks: dict[tuple[str, int], list[_Row]] = {}
    left_out: set[tuple[str, int]] = set()
    for environment, seed, *numbers in rows:
        key = (environment, seed)
        if key not in tasks and len(tasks) == MAX_TASKS:
            left_out.add(key)
        else:
            tasks.setdefault(key, []).append(_Row(*numbers))
    iterations = sorted({row.iteration for of_task in tasks.values() for row in of_task})
    places = {iteration: place for place, iteration in enumerate(iterations)}
    return {
        "iterations": iterations,
        "tasks": [
            {"environment": environment, "seed": str(seed), "cells": _cells(of_task, places)}
            for (environment, seed), of_task in tasks.items()
        ],
        "left_out": {"tasks": len(left_out), "iterations": len(every) - len(iterations)},
    }


def _cells(rows: Sequence[_Row], places: dict[int, int]) -> list[list[Any]]:
    """Return the cells of a task in order, from its groups, newest first: several in an iteration are one cell."""
    by_iteration: dict[int, list[_Row]] = {}
    for row in reversed(rows):
        by_iteration.setdefault(row.iteration, []).append(row)
    cells = []
    for iteration, groups in by_iteration.items():
        rewarded = sum(group.rewarded for group in groups)
        mean = sum(group.reward for group in groups) / rewarded if rewarded else None
        counted, solved = (sum(getattr(group, name) for group in groups) for name in ("counted", "solved"))
        cells.append([places[iteration], groups[-1].number, counted, solved, None if mean is None else round(mean, 4)])
    return cells
