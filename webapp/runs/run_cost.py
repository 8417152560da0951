"""What a run cost: hours, money with the operator's prices, cost of what it achieved, and what was wasted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from django.conf import settings
from django.db.models import Q, Sum

from trainer.metrics.training_use import TRAINED, USE_PREFIX
from webapp.runs.main_suite import main_suite
from webapp.runs.models import Evaluation, MetricPoint, Run, TimelinePart


@dataclass(frozen=True)
class Waste:
    """Time that taught the policy nothing: what it was spent on, and seconds of the run."""

    text: str
    seconds: float
    money: float


@dataclass(frozen=True)
class RunCost:
    """Cost of a run.

    Attributes:
        seconds: length of all recorded parts, including repeated ones.
        gpus: GPUs that the run held.
        price: money for an hour of the run; 0: no price is set.
        solved: puzzles of the main suite that the last evaluation solved; None without one.
        points: percentage points of success won between the first and the last evaluation; None with fewer than two.
        wasted: what taught nothing, the most first. Kinds may overlap.
    """

    seconds: float
    gpus: int
    price: float
    currency: str
    solved: int | None = None
    points: float | None = None
    wasted: list[Waste] = field(default_factory=list)

    @property
    def gpu_hours(self) -> float:
        return self.gpus * self.seconds / 3600

    @property
    def money(self) -> float:
        return self.price * self.seconds / 3600

    @property
    def seconds_per_solved(self) -> float | None:
        return self.seconds / self.solved if self.solved else None

    @property
    def money_per_solved(self) -> float | None:
        return self.money / self.solved if self.solved else None

    @property
    def seconds_per_point(self) -> float | None:
        return self.seconds / self.points if self.points and self.points > 0 else None

    @property
    def money_per_point(self) -> float | None:
        return self.money / self.points if self.points and self.points > 0 else None


def hourly_price(gpus: int) -> float:
    """Return the operator's price for an hour with that many GPUs."""
    return gpus * settings.ECHOSCOPE_PRICE_PER_GPU_HOUR if gpus else settings.ECHOSCOPE_PRICE_PER_MACHINE_HOUR


def held_gpus(run: Run) -> int:
    """Return the number of GPUs that a run or its actors hold."""
    return run.gpus or round(sum((actor.gpus or 0.0) * actor.count for actor in run.actors))


def run_cost(run: Run) -> RunCost | None:
    """Return the cost of a run; None if no timeline was recorded. Four queries."""
    total = run.timeline.aggregate(all=Sum("seconds"), repeated=Sum("seconds", filter=Q(repeated=True)))
    if not total["all"]:
        return None
    gpus = held_gpus(run)
    price = hourly_price(gpus)
    evaluations = list(run.evaluations.order_by("time", "iteration"))
    suite = main_suite(evaluations, run.environment)
    judged = [one for one in evaluations if one.suite == suite]
    wasted = [
        Waste(text, seconds, price * seconds / 3600)
        for text, seconds in (
            ("iterations that were played again after an interruption or a rewind", total["repeated"] or 0.0),
            *_taught_nothing(run),
            ("rollout actors with nothing to play, summed over actors", _idle_actor_seconds(run)),
        )
        if seconds >= 1
    ]
    return RunCost(
        seconds=total["all"],
        gpus=gpus,
        price=price,
        currency=settings.ECHOSCOPE_CURRENCY,
        solved=_solved(judged[-1]) if judged else None,
        points=100 * (judged[-1].success - judged[0].success) if len(judged) > 1 else None,
        wasted=sorted(wasted, key=lambda waste: -waste.seconds),
    )


def _solved(evaluation: Evaluation) -> int:
    return round(evaluation.success * evaluation.prompts)


def _taught_nothing(run: Run) -> list[tuple[str, float]]:
    """Return the seconds of iterations without an update, and of attempts that taught nothing in other iterations."""
    names = ["time/rollout", "time/update", "update/skipped"]
    points = MetricPoint.objects.filter(run=run).filter(Q(name__in=names) | Q(name__startswith=USE_PREFIX))
    by_iteration: dict[int, dict[str, float]] = defaultdict(dict)
    for name, iteration, value in points.values_list("name", "iteration", "value"):
        by_iteration[iteration][name] = value
    skipped = unused = 0.0
    for values in by_iteration.values():
        if values.get("update/skipped"):
            skipped += values.get("time/rollout", 0.0) + values.get("time/update", 0.0)
        else:
            unused += values.get("time/rollout", 0.0) * _unused_share(values)
    return [("iterations without an update", skipped), ("playing attempts that taught nothing", unused)]


def _unused_share(values: Mapping[str, float]) -> float:
    """Return the share of an iteration's attempts that were not trained on."""
    counts = {name.removeprefix(USE_PREFIX): value for name, value in values.items() if name.startswith(USE_PREFIX)}
    total = sum(counts.values())
    return 1 - counts.get(TRAINED, 0.0) / total if total else 0.0


def _idle_actor_seconds(run: Run) -> float:
    """Return the seconds in which rollout actors did nothing, summed over actors and iterations."""
    idle = 0.0
    for seconds, tracks in run.timeline.filter(part=TimelinePart.Part.ITERATION).values_list("seconds", "tracks"):
        for name, spans in tracks.items():
            if name.startswith("rollout actor "):
                idle += max(0.0, seconds - sum(sum(span["work"].values()) for span in spans))
    return idle
