"""Outcomes of a study's runs, read from the tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from django.contrib.postgres.aggregates import ArrayAgg
from django.db.models import Q

from trainer.studies.outcomes import GPU_MEMORY, OWN_GPU_MEMORY, EvaluationResult, Outcome
from trainer.studies.study import SUCCESS
from webapp.runs import curves
from webapp.runs.models import Alarm, Evaluation, Run
from webapp.studies.models import Study, StudyRun
from webapp.trajectories.models import Trajectory

MEMORY = "system/memory_bytes"
CLOCK = "reward/mean"
"""A metric logged in every training iteration: its last point contains the run's seconds."""


def load_members(study: Study, condition: Q | None = None) -> list[StudyRun]:
    """Return the runs of a study with their arms, in launch order, without their settings. One query."""
    members = StudyRun.objects.filter(arm__study=study).select_related("arm", "run")
    if condition is not None:
        members = members.filter(run__in=Run.objects.filter(condition).values("pk"))
    return list(members.defer("run__log_tail", "run__config").order_by("pk"))


def read_outcomes(members: Sequence[StudyRun], metrics: Iterable[str] = ()) -> list[Outcome]:
    """Return the outcomes of these runs so far, with every point of success and of `metrics`. Four queries."""
    keys = [member.run_id for member in members]
    names = list(dict.fromkeys((SUCCESS, *metrics)))
    points = curves.raw(keys, names) if keys else {}
    summaries = curves.summaries(keys, [CLOCK, MEMORY, GPU_MEMORY, OWN_GPU_MEMORY]) if keys else {}
    evaluations: dict[int, dict[str, list[EvaluationResult]]] = defaultdict(lambda: defaultdict(list))
    for row in Evaluation.objects.filter(run__in=keys).order_by("iteration"):
        result = EvaluationResult(row.iteration, row.prompts, row.success, row.success_low, row.success_high)
        evaluations[row.run_id][row.suite].append(result)
    alarms: dict[int, list[tuple[int, str]]] = defaultdict(list)
    found_alarms = Alarm.objects.filter(run__in=keys).order_by("seq", "pk")  # also alarms undone by a rewind
    for key, iteration, state in found_alarms.values_list("run_id", "iteration", "state"):
        alarms[key].append((iteration, state))
    outcomes = []
    for member in members:
        run, key = member.run, member.run_id
        clock, memory = (summaries.get((key, name)) for name in (CLOCK, MEMORY))
        outcome = Outcome(
            member.environment,
            member.arm.name,
            member.seed,
            iterations=run.iteration,
            curves={
                name: {point.iteration: point.value for point in metric_points}
                for name in names
                if (metric_points := points.get((key, name)))
            },
            evaluations=dict(evaluations[key]),
            suite=run.environment,
            trains=run.iterations > 0,
            alarms=alarms[key],
            timed_in=(*run.claimed_by, run.device) if run.claimed_by else (f"run {run.pk}",),
            seconds=float(run.summary.get("seconds") or (clock.seconds if clock else 0.0)),
            megabytes=memory.highest / 2**20 if memory else 0.0,
        )
        for name in (GPU_MEMORY, OWN_GPU_MEMORY):
            if gpu := summaries.get((key, name)):
                outcome.curves[name] = {gpu.highest_at: gpu.highest}
        outcomes.append(outcome)
    return outcomes


def add_puzzles(outcomes: Mapping[int, Outcome]) -> None:
    """Add the result of each puzzle to each suite's first and last evaluation, by primary key of the run. One query."""
    ends = {
        (key, suite, result.iteration): result
        for key, outcome in outcomes.items()
        for suite, results in outcome.evaluations.items()
        for result in (*results[:1], *results[-1:])
    }
    rows = (
        Trajectory.objects.filter(
            run__in=outcomes,
            split="eval",
            iteration__in={iteration for _, _, iteration in ends},
            superseded=False,
            status__in=Trajectory.COUNTED,
        )
        .order_by()
        .values_list("run_id", "iteration", "group__suite")
        .annotate(
            numbers=ArrayAgg("group__number", order_by=("group__number", "member")),
            statuses=ArrayAgg("status", order_by=("group__number", "member")),
        )
    )
    for key, iteration, suite, numbers, statuses in rows:
        if (result := ends.get((key, suite, iteration))) is not None:
            result.puzzles = _shares(numbers, statuses)


def _shares(numbers: Sequence[int], statuses: Sequence[str]) -> tuple[float, ...]:
    """Return the share of successes on each puzzle, in the order of their numbers."""
    played: dict[int, list[bool]] = defaultdict(list)
    for number, status in zip(numbers, statuses, strict=True):
        played[number].append(status == Trajectory.Status.SUCCESS)
    return tuple(fmean(successes) for successes in played.values())
