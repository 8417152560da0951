"""Best runs of an environment, and of the state that a user plays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Min, OuterRef, Q, QuerySet, Subquery

from webapp.core.formatting import plural
from webapp.play.starts import Start
from webapp.runs.models import Evaluation, Run
from webapp.trajectories.models import Group, Trajectory

MAX_GROUPS = 100
MAX_RUNS = 5


@dataclass(frozen=True)
class BestRun:
    """A run's newest trajectories from a state."""

    run: Run
    iteration: int
    played: int
    solved: int
    fewest: int | None
    slug: str

    @property
    def share(self) -> float:
        return self.solved / self.played if self.played else 0.0

    @property
    def result(self) -> str:
        """Result in words, e.g. “Solved it in 4 actions (iteration 40)”."""
        best = f" in {plural(self.fewest, 'action')}" if self.fewest else ""
        if not self.solved:
            what = "Did not solve it"
        elif self.played == 1:
            what = f"Solved it{best}"
        else:
            what = f"Solved it{f',{best} at best' if best else ''}"
        return f"{what} (iteration {self.iteration})"


def best_runs_from(user: Any, start: Start, board: dict[str, Any]) -> list[BestRun]:
    """Runs of the user's teams that played this state, best first. One query."""
    ended = Q(trajectories__finished_seq__isnull=False)
    solved = Q(trajectories__status=Trajectory.Status.SUCCESS)
    shortest = Trajectory.objects.filter(group=OuterRef("pk"), finished_seq__isnull=False)
    groups: QuerySet[Group] = (
        Group.objects.filter(
            seed=start.seed,
            environment=start.environment,
            superseded=False,
            run__in=Run.objects.listed_for(user).values("pk"),
        )
        .select_related("run")
        .annotate(
            played=Count("trajectories", filter=ended),
            solved=Count("trajectories", filter=ended & solved),
            fewest=Min("trajectories__action_count", filter=solved),
            best=Subquery(shortest.order_by("-total_reward", "action_count", "pk").values("slug")[:1]),
        )
        .order_by("-iteration", "-pk")[:MAX_GROUPS]
    )
    newest: dict[int, BestRun] = {}
    for group in groups:
        if group.played and group.run_id not in newest and without_players(group.board) == without_players(board):  # type: ignore[attr-defined]
            newest[group.run_id] = BestRun(
                group.run,
                group.iteration,
                group.played,  # type: ignore[attr-defined]
                group.solved,  # type: ignore[attr-defined]
                group.fewest,  # type: ignore[attr-defined]
                group.best,  # type: ignore[attr-defined]
            )
    return sorted(newest.values(), key=lambda best_run: (-best_run.share, best_run.fewest or 0))[:MAX_RUNS]


def best_runs(user: Any, name: str, variant: str = "") -> list[Evaluation]:
    """Newest evaluation of each run of the user's teams on the environment's fixed prompts, best first. One query.

    Only of runs that solve any: one that failed at every puzzle is not the best of anything.
    With the variant of an adapter, only of runs in it.
    """
    chosen = Q(run__config__environment__settings__id=variant) if variant else Q()
    newest = (
        Evaluation.objects.filter(run__in=Run.objects.listed_for(user).values("pk"), suite=name)
        .filter(chosen)
        .select_related("run", "run__author")
        .defer("run__log_tail", "run__summary")
        .order_by("run_id", "-iteration")
        .distinct("run_id")
    )
    solving = [result for result in newest if result.success > 0]
    return sorted(solving, key=lambda result: (-result.success, result.run_id))[:MAX_RUNS]


def best_of_each(user: Any, names: Sequence[str]) -> dict[str, Evaluation]:
    """The best run of the user's teams in each environment, by its newest result, if it solves any. One query."""
    newest = (
        Evaluation.objects.filter(run__in=Run.objects.listed_for(user).values("pk"), suite__in=names)
        .select_related("run")
        .only("suite", "success", "run__slug", "run__title")
        .order_by("run_id", "suite", "-iteration")
        .distinct("run_id", "suite")
    )
    best: dict[str, Evaluation] = {}
    for result in newest:
        if result.success > (best[result.suite].success if result.suite in best else 0.0):
            best[result.suite] = result
    return best


def without_players(data: Any) -> Any:
    """The board without empty fields, which some boards contain and some do not."""
    if isinstance(data, dict):
        return {key: without_players(value) for key, value in data.items() if value is not None}
    return [without_players(value) for value in data] if isinstance(data, list) else data
