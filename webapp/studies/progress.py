"""Steps of studies in the clock process: early stopping, next trials, end of the study."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean
from typing import cast

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Prefetch, Q, QuerySet
from django.utils import timezone

from trainer.metrics import registry
from trainer.studies.outcomes import get_window
from webapp.core.quotas import QuotaExceeded
from webapp.runs import curves
from webapp.runs.actions import RequestRefused, do_request
from webapp.runs.models import Run
from webapp.studies import optimizer
from webapp.studies.actions import do_add_arms
from webapp.studies.models import Study, StudyArm
from webapp.studies.optimizer import ArmRecord, Better
from webapp.studies.study_plan import PlannedArm, PlannedCell, StudyRefused, number_type, trial_cells
from webapp.studies.study_spec import MAX_TRIALS, CatalogueSpec, GridSpec, SearchSpec, read_spec
from webapp.teams.access import may_write

logger = logging.getLogger(__name__)

ACTIVE = (Run.State.QUEUED, Run.State.STARTING, Run.State.RUNNING, Run.State.PAUSED)
MAX_ATTEMPTS = 20
"""Number of draws of values that do not fit together, after which a search is paused."""


def unfinished() -> QuerySet[Study]:
    """Return studies to step, including finished ones with resumed runs."""
    resumed = Q(state=Study.State.FINISHED, arms__members__run__state__in=ACTIVE)
    return Study.objects.filter(Q(state=Study.State.RUNNING) | resumed).distinct()


def do_advance() -> int:
    """Step every unfinished study. Returns the number of studies that changed."""
    count = 0
    for number in list(unfinished().order_by("pk").values_list("pk", flat=True)):
        try:
            count += do_advance_study(number)
        except Exception:  # one study must not keep the others waiting
            logger.exception("Study %s could not be stepped; it is tried again in the next round.", number)
    return count


@transaction.atomic
def do_advance_study(number: int) -> bool:
    """Stop hopeless arms, launch the next trials, and end the study if it is done. Returns False if nothing changed."""
    study = (
        Study.objects.select_for_update(skip_locked=True, of=("self",))
        .select_related("team", "author")
        .filter(pk=number, state__in=(Study.State.RUNNING, Study.State.FINISHED))
        .first()
    )
    if study is None:
        return False
    spec = read_spec(study.spec)
    changed = False
    if not isinstance(spec, CatalogueSpec):
        light = Run.objects.defer("config", "log_tail", "summary")
        arms = list(study.arms.prefetch_related(Prefetch("members__run", light)))
        if spec.early_stopping is not None:
            changed = _stop_hopeless(study, spec, arms)
        if isinstance(spec, SearchSpec) and study.state == Study.State.RUNNING:
            changed = _launch_trials(study, spec, arms) or changed
    return _settle(study, spec) or changed


def _settle(study: Study, spec: CatalogueSpec | GridSpec | SearchSpec) -> bool:
    """Update whether the study is finished, from its runs. Returns True if that changed."""
    runs = Run.objects.filter(study_run__arm__study=study)
    unfinished = runs.filter(state__in=ACTIVE).exists()
    if isinstance(spec, SearchSpec) and study.arms.count() < spec.trials:
        unfinished = True
    state = Study.State.RUNNING if unfinished else Study.State.FINISHED
    if study.state == state:
        return False
    study.state, study.ended_at = state, None if unfinished else timezone.now()
    study.save(update_fields=["state", "ended_at"])
    return True


# -- values of arms ---------------------------------------------------------------------------------------------------


def get_runs(arm: StudyArm) -> list[Run]:
    """Return the prefetched runs of an arm."""
    return [member.run for member in arm.members.all()]


def value_at(points: Sequence[curves.Point], iteration: int | None, window: int) -> float | None:
    """Return the mean of the last `window` points up to an iteration (None: the end); None without points."""
    values = [point.value for point in points if iteration is None or point.iteration <= iteration][-window:]
    return fmean(values) if values else None


def better_direction(metric: str) -> Better:
    """Return the direction in which the metric improves."""
    return cast(Better, registry.get_spec(metric).better)


def arm_value(arm: StudyArm, points: curves.Curves, metric: str) -> float | None:
    """Return the mean final value of the metric over the arm's runs; None if one has no value."""
    values = [value_at(points.get((run.pk, metric), []), None, get_window(metric)) for run in get_runs(arm)]
    known = [value for value in values if value is not None]
    return fmean(known) if known and len(known) == len(values) else None


def trial_record(arm: StudyArm, points: curves.Curves, metric: str) -> ArmRecord:
    """Return the arm for the optimizer; an arm with an unfinished run has no result."""
    rungs = {int(rung): float(value) for rung, value in arm.rungs.items()}
    states = {run.state for run in get_runs(arm)}
    if arm.stopped:
        return ArmRecord(arm.changes, "stopped", rungs=rungs)
    if states & set(ACTIVE):
        return ArmRecord(arm.changes, "running", rungs=rungs)
    value = arm_value(arm, points, metric) if states == {Run.State.FINISHED} else None
    return ArmRecord(arm.changes, "failed" if value is None else "complete", value, rungs)


# -- early stopping ---------------------------------------------------------------------------------------------------


def _stop_hopeless(study: Study, spec: GridSpec | SearchSpec, arms: list[StudyArm]) -> bool:
    """Compare arms at the rungs that they have newly reached, and request that the worst of them stop."""
    assert spec.early_stopping is not None
    stopping, metric, better = spec.early_stopping, spec.metric, better_direction(spec.metric)
    keys = [run.pk for arm in arms for run in get_runs(arm)]
    points = curves.raw(keys, [metric])
    changed = False
    reached = _newly_reached(spec, arms, points)
    for rung in sorted({rung for rung, _, _ in reached}):
        arms_at_rung = [(arm, value) for at, arm, value in reached if at == rung and not arm.stopped]
        for arm, value in arms_at_rung:  # record all values before the first arm is judged
            arm.rungs = {**arm.rungs, str(rung): value}
        records = {arm.pk: trial_record(arm, points, metric) for arm in arms}
        for arm, value in arms_at_rung:
            others = [record for key, record in records.items() if key != arm.pk]
            if optimizer.is_hopeless(stopping, better, records[arm.pk], others):
                arm.stopped = _reason(study, spec, rung, value, list(records.values()))
            arm.save(update_fields=["rungs", "stopped"])
            changed = True
    for arm in arms:
        if arm.stopped:
            _request_stop(arm)
    return changed


def _newly_reached(
    spec: GridSpec | SearchSpec, arms: Sequence[StudyArm], points: curves.Curves
) -> list[tuple[int, StudyArm, float]]:
    """Return (rung, arm, mean value) for each rung that an active arm has reached since the last step."""
    assert spec.early_stopping is not None
    reached = []
    for arm in arms:
        if arm.stopped or not any(run.state in ACTIVE for run in get_runs(arm)):
            continue
        rungs = optimizer.rung_iterations(spec.early_stopping, min(run.iterations for run in get_runs(arm)))
        for rung in range(len(arm.rungs), len(rungs)):
            at, window = rungs[rung], get_window(spec.metric)
            values = [value_at(points.get((run.pk, spec.metric), []), at, window) for run in get_runs(arm)]
            known = [value for value in values if value is not None]
            if len(known) < len(values) or any(run.iteration < at for run in get_runs(arm)):
                break
            reached.append((rung, arm, fmean(known)))
    return reached


def _reason(study: Study, spec: GridSpec | SearchSpec, rung: int, value: float, records: list[ArmRecord]) -> str:
    assert spec.early_stopping is not None
    reached = [record.rungs[rung] for record in records if rung in record.rungs]
    better = better_direction(spec.metric)
    rank = 1 + sum(other > value if better == "up" else other < value for other in reached)
    title = registry.get_spec(spec.metric)
    at = spec.early_stopping.min_iterations * spec.early_stopping.reduction**rung
    return (
        f"Stopped by the study {study.title}: after iteration {at}, its {title.title.lower()} of "
        f"{title.text(value)} was place {rank} of {len(reached)} arms there; one in {spec.early_stopping.reduction} "
        "goes on."
    )


def _request_stop(arm: StudyArm) -> None:
    """Request a stop of each run of the arm, once. A refused request is repeated in the next round."""
    for member in arm.members.all():
        if member.stop_requested:
            continue
        if member.run.state in ACTIVE:
            try:
                do_request(member.run, "stop")
            except RequestRefused as refusal:
                logger.info("Run %s does not stop yet: %s", member.run.slug, refusal)
                continue
        member.stop_requested = True
        member.save(update_fields=["stop_requested"])


# -- search -----------------------------------------------------------------------------------------------------------


def _launch_trials(study: Study, spec: SearchSpec, arms: list[StudyArm]) -> bool:
    """Launch trials up to the number that the study runs in parallel; show a problem on its page."""
    busy = sum(not arm.stopped and any(run.state in ACTIVE for run in get_runs(arm)) for arm in arms)
    count = min(spec.parallel - busy, spec.trials - len(arms))
    if count <= 0:
        return False
    problem, launched = "", False
    if study.author is None or not study.author.is_active or not may_write(study.author, study.team_id):
        problem = "The author of this study may not launch runs in its team any more: it launches no further trials."
    else:
        try:
            for arm, cells in _next_trials(spec, arms, count):
                with transaction.atomic():  # one by one: a queue with room for some of them takes these
                    do_add_arms(study, study.author, [arm], [replace(cell, arm=0) for cell in cells])
                launched = True
        except (StudyRefused, RequestRefused, QuotaExceeded, PermissionDenied) as refusal:
            problem = f"No further trials at the moment: {refusal}"
    if study.problem != problem:
        study.problem = problem
        study.save(update_fields=["problem"])
        launched = True
    return launched


def _next_trials(spec: SearchSpec, arms: Sequence[StudyArm], count: int) -> list[tuple[PlannedArm, list[PlannedCell]]]:
    """Return the next trials. Values that do not fit together are drawn again; raises StudyRefused if none fit."""
    keys = [run.pk for arm in arms for run in get_runs(arm)]
    points = curves.raw(keys, [spec.metric]) if keys else {}
    records = [trial_record(arm, points, spec.metric) for arm in arms]
    environment = spec.config["environment"]["name"]
    whole = {search_range.setting: number_type(search_range.setting, environment) is int for search_range in spec.space}
    planned: list[tuple[PlannedArm, list[PlannedCell]]] = []
    refusal = StudyRefused("space", "holds no values that fit together")
    for attempt in range(MAX_ATTEMPTS):
        seed = int(spec.config.get("seed", 0)) + MAX_TRIALS * attempt
        lacking = count - len(planned)
        for changes in optimizer.suggestions(spec, whole, records, better_direction(spec.metric), lacking, seed):
            try:
                planned.append(trial_cells(spec, changes, len(planned)))
            except StudyRefused as refused:
                refusal = refused
        if len(planned) == count:
            break
    if not planned:
        raise refusal
    return planned
