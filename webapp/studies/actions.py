"""Launch, steering and sharing of studies, each in a transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone

from webapp.core import formatting
from webapp.core.names import one_line
from webapp.core.quotas import QuotaExceeded
from webapp.core.soft_delete import UNDO_TIME
from webapp.runs.access import require_may_prefer
from webapp.runs.actions import RequestRefused, do_request, do_update_run
from webapp.runs.launch.creation import KEY_LENGTH, SchedulingOptions, free_name
from webapp.runs.launch.planning import do_launch, plan_launch
from webapp.runs.models import Run
from webapp.studies.models import MAX_TITLE_LENGTH, Study, StudyArm, StudyRun
from webapp.studies.study_launch import build_request
from webapp.studies.study_plan import PlannedArm, PlannedCell, StudyPlan
from webapp.studies.study_spec import Spec
from webapp.teams.audit import record
from webapp.teams.models import AuditAction, Team, User

Action = Literal["pause", "resume", "cancel", "undo-cancel"]
ACTIONS: tuple[Action, ...] = ("pause", "resume", "cancel", "undo-cancel")
RUNS_VISIBILITY = "runs_visibility"
"""Key in `Study.scheduling` for the visibility of later trials: a study may be open without its runs."""


def do_create_study(
    team: Team,
    author: User,
    spec: Spec,
    plan: StudyPlan,
    *,
    title: str = "",
    scheduling: SchedulingOptions | None = None,
    visibility: Study.Visibility = Study.Visibility.TEAM,
    launch_key: str = "",
) -> Study:
    """Create a study with its first runs, all or none; the clock process launches the trials of a search.

    Returns the author's existing study with this `launch_key`, if there is one. Raises the exceptions of do_launch.
    """
    scheduling = scheduling or SchedulingOptions()
    require_may_prefer(author, team.pk, scheduling.priority)
    key = launch_key[:KEY_LENGTH]
    earlier = Study.objects.filter(author=author, launch_key=key)
    if key and (existing := earlier.first()):
        return existing
    try:
        with transaction.atomic():
            study = Study.objects.create(
                team=team,
                author=author,
                title=free_name(team, one_line(title or plan.title)[:MAX_TITLE_LENGTH].strip()),
                kind=spec.kind,
                spec=spec.model_dump(mode="json"),
                scheduling={
                    "queue": scheduling.queue,
                    "gpus": scheduling.gpus,
                    "priority": int(scheduling.priority),
                    RUNS_VISIBILITY: str(visibility),
                },
                visibility=visibility,
                launch_key=key,
            )
            do_add_arms(study, author, plan.arms, plan.cells)
            _record(AuditAction.LAUNCHED, study)
    except (IntegrityError, QuotaExceeded):  # the same launch may have been committed meanwhile
        if key and (existing := earlier.first()):
            return existing
        raise
    return study


def _record(action: AuditAction, study: Study, **details: Any) -> None:
    record(action, f"study “{study.title}”", team=study.team, path=study.get_absolute_url(), **details)


@transaction.atomic
def do_add_arms(study: Study, author: User, arms: Sequence[PlannedArm], cells: Sequence[PlannedCell]) -> list[StudyArm]:
    """Create further arms, and queue their runs. `cells` count the new arms from 0.

    Raises the exceptions of do_launch.
    """
    if not arms:
        return []
    first = 1 + study.arms.count()
    rows = StudyArm.objects.bulk_create(
        StudyArm(
            study=study,
            number=first + at,
            name=arm.name or f"trial-{first + at}",
            title=arm.title,
            changes=arm.changes,
        )
        for at, arm in enumerate(arms)
    )
    request = build_request(
        author,
        study.team,
        cells[0].config,
        cells,
        get_scheduling(study),
        visibility=Run.Visibility(study.scheduling.get(RUNS_VISIBILITY, Run.Visibility.TEAM)),
        group=study.title,
    )
    runs = do_launch(plan_launch(request, Run.objects.listed_for(author)))
    StudyRun.objects.bulk_create(
        StudyRun(arm=rows[cell.arm], run=run, environment=cell.environment, seed=cell.seed)
        for cell, run in zip(cells, runs, strict=True)
    )
    return rows


def get_scheduling(study: Study) -> SchedulingOptions:
    """Return the options chosen at the launch, which apply to later trials as well."""
    stored: dict[str, Any] = study.scheduling
    return SchedulingOptions(
        stored.get("queue", ""), stored.get("gpus"), Run.Priority(stored.get("priority", Run.Priority.NORMAL))
    )


@dataclass(frozen=True)
class StudyChange:
    """Result of a request to all runs of a study. `refusals` are the reasons of runs that did not follow."""

    changed: int
    refusals: list[str] = field(default_factory=list)

    def message(self, action: Action) -> str:
        """Return the message for users."""
        runs = formatting.plural(self.changed, "run")
        text = {
            "pause": f"The study is paused: {runs} pause after their current turn and keep a checkpoint.",
            "resume": f"The study goes on: {runs} are queued again and continue from their checkpoints.",
            "cancel": f"The study is cancelled, with {runs}. Results so far are kept.",
            "undo-cancel": f"The cancellation is undone: {runs} go on.",
        }[action]
        if self.refusals:
            text += f" {formatting.plural(len(self.refusals), 'run')} did not follow: {self.refusals[0]}"
        return text


STATES: dict[Action, tuple[tuple[Study.State, ...], Study.State]] = {
    "pause": ((Study.State.RUNNING,), Study.State.PAUSED),
    "resume": ((Study.State.PAUSED, Study.State.RUNNING), Study.State.RUNNING),
    "cancel": ((Study.State.RUNNING, Study.State.PAUSED), Study.State.CANCELLED),
    "undo-cancel": ((Study.State.CANCELLED,), Study.State.RUNNING),
}
"""States in which an action is possible, and the state after it."""


def do_control_study(study: Study, action: Action) -> StudyChange:
    """Pause, resume or cancel a study with all of its runs, or undo a cancellation.

    The study changes first, so that it launches nothing more; its runs follow one by one. Raises RequestRefused.
    """
    states, new_state = STATES[action]
    now = timezone.now()
    possible = Study.objects.filter(pk=study.pk, state__in=states)
    if action == "undo-cancel":
        possible = possible.filter(ended_at__gt=now - UNDO_TIME)
    if action == "resume":  # a running study, too: runs that were still pausing at the last request, or by themselves
        paused = Study.objects.filter(arms__members__run__state=Run.State.PAUSED)
        possible = possible.filter(Q(state=Study.State.PAUSED) | Q(pk__in=paused.values("pk")))
    cancelled_at = study.ended_at
    ended = now if new_state == Study.State.CANCELLED else None
    with transaction.atomic():
        if not possible.update(state=new_state, ended_at=ended, **({"problem": ""} if action == "resume" else {})):
            study.refresh_from_db()
            raise RequestRefused(_refusal(study, action))
        _record(AuditAction.CONTROLLED, study, request=action)
    study.refresh_from_db()
    runs = Run.objects.filter(study_run__arm__study=study)
    followed, refusals = 0, []
    for run in runs.filter(_affected(action, cancelled_at)).order_by("pk"):
        try:
            do_request(run, action)
            followed += 1
        except (RequestRefused, QuotaExceeded) as refusal:
            run.refresh_from_db()
            if Run.objects.filter(_affected(action, cancelled_at), pk=run.pk).exists():  # else it just ended by itself
                refusals.append(str(refusal))
    if action == "resume":
        pausing = runs.filter(state__in=Run.HELD, requested=Run.Request.PAUSE).count()
        refusals += ["It is still pausing: resume the study again when it has."] * pausing
    return StudyChange(followed, refusals)


def _affected(action: Action, cancelled_at: Any) -> Q:
    """Return a condition on the runs to which an action applies; runs that were stopped early are not changed."""
    match action:
        case "pause":
            return Q(state__in=(Run.State.QUEUED, *Run.HELD), requested="")
        case "resume":
            return Q(state=Run.State.PAUSED)
        case "cancel":
            pausing = Q(state__in=Run.HELD, requested__in=("", Run.Request.PAUSE))
            return Q(state__in=(Run.State.QUEUED, Run.State.PAUSED)) | pausing
        case "undo-cancel":
            pending = Q(state__in=Run.HELD, requested=Run.Request.CANCEL)
            return pending | Q(state=Run.State.CANCELLED, ended_at__gte=cancelled_at - timedelta(seconds=5))


def _refusal(study: Study, action: Action) -> str:
    state = study.get_state_display().lower()
    if action == "undo-cancel":
        return f"There is no cancellation to undo: that is possible for {UNDO_TIME // timedelta(minutes=1)} minutes."
    return f"This study is {state}: it cannot {action} now."


@transaction.atomic
def do_share_study(study: Study, visibility: Study.Visibility, *, with_runs: bool = False) -> int:
    """Set who can read the study. `with_runs`: also its runs, including later trials, except for private ones.

    Returns the number of changed runs.
    """
    locked = Study.objects.select_for_update().get(pk=study.pk)
    scheduling = locked.scheduling
    if with_runs or visibility == Study.Visibility.TEAM:
        scheduling = scheduling | {RUNS_VISIBILITY: str(visibility)}
    Study.objects.filter(pk=study.pk).update(visibility=visibility, scheduling=scheduling)
    study.visibility, study.scheduling = visibility, scheduling
    _record(AuditAction.STUDY_CHANGED, study, visibility=str(visibility), with_runs=with_runs)
    if not with_runs:
        return 0
    wanted = Run.Visibility(visibility)
    runs = Run.objects.filter(study_run__arm__study=study)
    changed = list(runs.exclude(visibility__in=(Run.Visibility.PRIVATE, wanted)))
    for run in changed:
        do_update_run(run, visibility=wanted)
    return len(changed)
