"""Endpoints of studies: list, launch, read, steer, share, export."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from ninja import Query, Router, Schema, Status
from pydantic import Field, ValidationError

from trainer.config.files import as_messages
from trainer.studies.results import ArmResult, RunRow
from trainer.studies.study import SUCCESS
from webapp.api import cursors
from webapp.api.auth import Caller, caller
from webapp.api.errors import Problem, invalid, refused
from webapp.api.idempotency import Key
from webapp.api.routes.runs import requested_config
from webapp.api.schemas.run_schemas import NewRun
from webapp.api.schemas.shared_schemas import Cursor, Limit, State, Text
from webapp.api.schemas.study_schemas import (
    ExportFormat,
    NewStudy,
    ReportedOut,
    StudyArmOut,
    StudyControl,
    StudyControlled,
    StudyDetail,
    StudyOut,
    StudyPage,
    StudyPatch,
    StudyRunOut,
    StudySlug,
    StudyState,
    StudyVerdictOut,
)
from webapp.runs.launch.creation import SchedulingOptions
from webapp.runs.models import Run
from webapp.studies.actions import do_control_study, do_create_study, do_share_study
from webapp.studies.models import Study, StudyRun
from webapp.studies.seen_study import SeenStudy, seen_by
from webapp.studies.study_export import FORMATS, exported
from webapp.studies.study_launch import launchable
from webapp.studies.study_plan import StudyRefused
from webapp.studies.study_spec import Spec, read_spec
from webapp.teams.access import require_writer, role_in_team

router = Router(tags=["studies"])


class StudyFilter(Schema):
    """Filters of the list of studies."""

    state: StudyState | None = Field(None, description="Only studies in this state.")
    text: Text | None = Field(None, description="Part of the title.")
    limit: Limit = 30
    cursor: Cursor = None


@router.get("/studies", response={200: StudyPage} | refused(), operation_id="list_studies", summary="List studies")
def list_studies(request: HttpRequest, filters: Query[StudyFilter]) -> StudyPage:
    """Studies of your teams (with a token: of its team), newest first."""
    requester = caller(request)
    studies = Study.objects.listed_for(requester.user).select_related("team", "author")
    if requester.team is not None:
        studies = studies.filter(team=requester.team)
    if filters.state:
        studies = studies.filter(state=filters.state)
    if filters.text:
        studies = studies.filter(title__icontains=filters.text)
    page, following = cursors.newest_first(studies, "studies", filters.cursor, filters.limit)
    counts = _counts(page)
    out = [StudyOut.model_validate(_study(request, study, counts.get(study.pk, {}))) for study in page]
    return StudyPage(items=out, next_cursor=following)


MADE: dict[int, Any] = {200: StudyDetail, 201: StudyDetail}


@router.post("/studies", response=MADE | refused(409), operation_id="create_study", summary="Launch a study")
def create_study(request: HttpRequest, payload: NewStudy, key: Key = None) -> Status[StudyDetail]:
    """Launch a study with all runs that it begins with, or none. A search launches its trials within seconds."""
    requester = caller(request)
    team = requester.team_to_write_in(payload.team)
    spec = _spec(payload)
    scheduling = SchedulingOptions(payload.queue or "", payload.gpus, Run.Priority[payload.priority.upper()])
    try:
        plan, _ = launchable(spec, requester.user, team, scheduling, requester.runs())
    except StudyRefused as refusal:
        raise invalid({refusal.field: str(refusal)}) from None
    launch_key = "" if key is None else f"api-{hashlib.sha256(key.encode()).hexdigest()[:32]}"
    earlier = Study.objects.filter(author=requester.user, launch_key=launch_key).first() if key else None
    if earlier is not None and (earlier.spec != spec.model_dump(mode="json") or earlier.team_id != team.pk):
        raise Problem(
            409,
            f"The Idempotency-Key {key!r} was used for another study. Nothing was created. Use a new key.",
            code="key_reused",
        )
    study = earlier or do_create_study(
        team,
        requester.user,
        spec,
        plan,
        title=payload.title,
        scheduling=scheduling,
        visibility=Study.Visibility(payload.visibility),
        launch_key=launch_key,
    )
    return Status(201 if earlier is None else 200, _detail(request, study))


def _spec(payload: NewStudy) -> Spec:
    """Return the plan in the request. Raises Problem 422."""
    data: dict[str, Any] = {"kind": payload.kind}
    if payload.seeds is not None:
        data["seeds"] = payload.seeds
    stopping = payload.early_stopping.model_dump() if payload.early_stopping else None
    if payload.kind == "catalogue":
        if stopping or payload.axes or payload.space or payload.config or payload.preset:
            raise invalid({"kind": "catalogue takes study, scale, seeds and overrides only"})
        data |= {"study": payload.study, "scale": payload.scale, "overrides": payload.overrides}
    else:
        common = NewRun(config=payload.config, preset=payload.preset, overrides=payload.overrides)
        config, preset = requested_config(common)
        data |= {"config": config.model_dump(mode="json"), "preset": preset, "metric": payload.metric}
        data["early_stopping"] = stopping
        if payload.kind == "grid":
            data["axes"] = [axis.model_dump() for axis in payload.axes]
        else:
            data["space"] = [dimension.model_dump() for dimension in payload.space]
            data |= {"trials": payload.trials, "parallel": payload.parallel}
    try:
        return read_spec(data)
    except ValidationError as error:
        prefix = f"{payload.kind}."
        raise invalid({name.removeprefix(prefix): text for name, text in as_messages(error.errors())}) from None


@router.get(
    "/studies/{slug}", response={200: StudyDetail} | refused(), operation_id="get_study", summary="Read a study"
)
def get_study(request: HttpRequest, slug: StudySlug) -> StudyDetail:
    """The study with its arms, verdicts and the paper's figures."""
    return _detail(request, _find(caller(request), slug))


@router.patch(
    "/studies/{slug}", response={200: StudyOut} | refused(), operation_id="update_study", summary="Share a study"
)
def update_study(request: HttpRequest, slug: StudySlug, payload: StudyPatch) -> StudyOut:
    """Set who can read the study, and on request its runs."""
    study = _find_to_steer(caller(request), slug)
    do_share_study(study, Study.Visibility(payload.visibility), with_runs=payload.with_runs)
    return _out(request, study)


@router.post(
    "/studies/{slug}/control",
    response={200: StudyControlled} | refused(409),
    operation_id="control_study",
    summary="Pause, resume or cancel a study",
)
def control_study(request: HttpRequest, slug: StudySlug, payload: StudyControl) -> StudyControlled:
    """All of its runs follow. 409 with an explanation if the study's state does not permit the action."""
    study = _find_to_steer(caller(request), slug)
    change = do_control_study(study, payload.action)
    return StudyControlled(changed=change.changed, refusals=change.refusals, study=_out(request, study))


@router.get(
    "/studies/{slug}/export/{kind}",
    response={200: None} | refused(),
    operation_id="export_study",
    summary="Export a study",
    openapi_extra={
        "responses": {200: {"content": {media: {"schema": {"type": "string"}} for media, _ in FORMATS.values()}}}
    },
)
def export_study(request: HttpRequest, slug: StudySlug, kind: ExportFormat) -> HttpResponse:
    """The page as Markdown, the charts as SVG, or one line per run as CSV."""
    requester = caller(request)
    text = exported(seen_by(requester.user, _find(requester, slug)), kind, request.build_absolute_uri)
    return HttpResponse(text, content_type=f"{FORMATS[kind][0]}; charset=utf-8")


def _find(requester: Caller, slug: str) -> Study:
    """Return the study of that slug if the caller may read it. Raises Problem 404."""
    visible = Study.objects.visible_to(requester.user).select_related("team", "author")
    return requester.find(visible, slug, "study")


def _find_to_steer(requester: Caller, slug: str) -> Study:
    """Return the study, as _find, for users who may write in its team. Raises PermissionDenied for readers."""
    study = _find(requester, slug)
    require_writer(requester.user, study.team_id)
    return study


def _counts(studies: Sequence[Study]) -> dict[int, dict[str, int]]:
    """Return study → state → number of runs. One query."""
    rows = StudyRun.objects.filter(arm__study__in=studies).order_by().values_list("arm__study", "run__state")
    counts: dict[int, dict[str, int]] = {}
    for study, state, number in rows.annotate(number=Count("pk")):
        counts.setdefault(study, {})[state] = number
    return counts


def _out(request: HttpRequest, study: Study) -> StudyOut:
    return StudyOut.model_validate(_study(request, study, _counts([study]).get(study.pk, {})))


def _study(request: HttpRequest, study: Study, runs: dict[str, int]) -> dict[str, Any]:
    inside = role_in_team(caller(request).user, study.team_id) is not None
    return {
        "slug": study.slug,
        "url": request.build_absolute_uri(reverse("study", args=[study.slug])),
        "title": study.title,
        "team": {"slug": study.team.slug, "name": study.team.name} if inside else None,
        "author": study.author.username if study.author and inside else None,
        "kind": study.kind,
        "state": study.state,
        "visibility": study.visibility,
        "runs": runs,
        "problem": study.problem,
        "created_at": study.created_at,
        "ended_at": study.ended_at,
    }


def _detail(request: HttpRequest, study: Study) -> StudyDetail:
    seen = seen_by(caller(request).user, study)
    results = seen.results()
    return StudyDetail.model_validate(
        _study(request, study, dict(Counter(member.run.state for member in seen.members)))
        | {
            "plan": _plan(request, study),
            "metric": results.metric or SUCCESS,
            "arms": _arms(seen, results.arms),
            "verdicts": [
                StudyVerdictOut(
                    claim=item.finding,
                    environment=item.environment,
                    verdict=item.word,
                    firm=item.firm,
                    figures=item.figures,
                    p=item.p,
                    corrected=item.corrected,
                    complete=item.complete,
                    planned=item.planned,
                )
                for item in results.verdicts
            ],
            "paper": [
                ReportedOut(what=item.what, value=item.value, environment=item.environment, arm=item.arm)
                for item in results.reported
            ],
        }
    )


def _plan(request: HttpRequest, study: Study) -> dict[str, Any]:
    """Return the plan; readers outside the team do not get the shared settings, which may name models and files."""
    plan: dict[str, Any] = study.spec
    if role_in_team(caller(request).user, study.team_id) is not None:
        return plan
    return {name: value for name, value in plan.items() if name not in ("config", "overrides")}


def _arms(seen: SeenStudy, arms: Sequence[ArmResult]) -> list[StudyArmOut]:
    runs = {member.run_id: member.run for member in seen.members}
    changes = dict(seen.study.arms.values_list("name", "changes"))
    return [
        StudyArmOut(
            name=arm.arm.name,
            title=arm.arm.title,
            environment=arm.environment,
            changes=changes[arm.arm.name],
            success=arm.mean,
            deviation=arm.deviation,
            value=arm.value,
            complete=arm.complete,
            stopped=arm.stopped,
            runs=[_run(row, runs[row.key]) for row in arm.rows],
        )
        for arm in arms
    ]


def _run(row: RunRow, run: Run) -> StudyRunOut:
    return StudyRunOut(
        slug=run.slug if row.link else None,
        seed=row.outcome.seed,
        state=cast(State, run.state),
        iteration=run.iteration,
        iterations=run.iterations,
        success=row.success,
    )
