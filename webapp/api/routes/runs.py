"""Endpoints of runs: list, launch, read, edit, control, clone, delete."""

from __future__ import annotations

import json
from typing import Annotated, Any

from django.db import transaction
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from ninja import Query, Router, Schema, Status
from pydantic import Field, ValidationError

from trainer.config.dotted import UnknownSetting
from trainer.config.files import (
    as_messages,
    find_preset,
    load_preset,
    ordered_dump,
    preset_names,
    with_values,
)
from trainer.config.run import RunConfig
from webapp.api import cursors
from webapp.api.auth import Caller, caller
from webapp.api.errors import Problem, invalid, refused
from webapp.api.idempotency import Key, do_once
from webapp.api.schemas.run_schemas import CloneOptions, NewRun, RunControl, RunDetail, RunPage, RunPatch
from webapp.api.schemas.shared_schemas import Cursor, Limit, RunSlug, Slug, State, Text
from webapp.api.serializers import run_detail, run_out
from webapp.core.output_budget import yaml_text
from webapp.runs.access import require_may_delete, require_may_prefer, require_may_set
from webapp.runs.actions import do_archive_run, do_delete_run, do_request, do_update_run
from webapp.runs.launch.creation import SchedulingOptions, options_for_clone
from webapp.runs.launch.planning import LaunchRequest, do_launch, plan_launch
from webapp.runs.models import Run

router = Router(tags=["runs"])


class RunFilter(Schema):
    """Filters of the list of runs."""

    state: State | None = Field(None, description="Only runs in this state.")
    archived: bool | None = Field(None, description="Only archived runs, or only others; default: all.")
    environment: Text | None = Field(None, description="Name of the main environment.")
    tag: Text | None = Field(None, description="A tag of the run.")
    author: Text | None = Field(None, description="User name.")
    group: Text | None = Field(None, description="Name of a group of runs.")
    text: Text | None = Field(None, description="Part of the title, or a tag.")
    limit: Limit = 30
    cursor: Cursor = None


@router.get("/runs", response={200: RunPage} | refused(), operation_id="list_runs", summary="List runs")
def list_runs(request: HttpRequest, filters: Query[RunFilter]) -> RunPage:
    """Runs of your teams (with a token: of its team), newest first."""
    runs = caller(request).runs().with_alarm().select_related("team", "author").defer("log_tail", "config")
    if filters.archived is not None:
        runs = runs.filter(archived_at__isnull=not filters.archived)
    if filters.state:
        runs = runs.filter(state=filters.state)
    if filters.environment:
        runs = runs.filter(environment=filters.environment)
    if filters.tag:
        runs = runs.filter(tags__contains=[filters.tag])
    if filters.author:
        runs = runs.filter(author__username=filters.author)
    if filters.group:
        runs = runs.filter(group=filters.group)
    if filters.text:
        runs = runs.filter(Q(title__icontains=filters.text) | Q(tags__contains=[filters.text]))
    page, following = cursors.newest_first(runs, "runs", filters.cursor, filters.limit)
    return RunPage(items=[run_out(request, run) for run in page], next_cursor=following)


MADE: dict[int, Any] = {200: RunDetail, 201: RunDetail}


@router.post("/runs", response=MADE | refused(409), operation_id="create_run", summary="Launch a run")
def create_run(request: HttpRequest, payload: NewRun, key: Key = None) -> Status[RunDetail]:
    """Launch a configuration, or a preset with dotted overrides. The run is queued until a worker is free."""
    requester = caller(request)
    launch_request = requested_launch(requester, payload)
    run, created = launch_once(requester, launch_request, "create", key, payload, team=launch_request.team.slug)
    return Status(201 if created else 200, run_detail(request, run))


@router.post("/runs/{slug}/clone", response=MADE | refused(409), operation_id="clone_run", summary="Clone a run")
def clone_run(request: HttpRequest, slug: RunSlug, payload: CloneOptions, key: Key = None) -> Status[RunDetail]:
    """Launch the same configuration with some settings changed. The clone belongs to the same team."""
    requester = caller(request)
    source = requester.run_to_change(slug)
    if source.recorded is not None:
        raise Problem(
            409, "This run was trained by another trainer; its settings cannot be launched here.", code="refused"
        )
    source_options = options_for_clone(source)
    launch_request = LaunchRequest(
        requester.user,
        source.team,
        _with_overrides(_config(source.config), payload.overrides),
        source.preset,
        group=payload.group.strip(),
        scheduling=SchedulingOptions(
            payload.queue or source_options.queue,
            source_options.gpus if payload.gpus is None else payload.gpus,
            Run.Priority[payload.priority.upper()],
        ),
        visibility=Run.Visibility(payload.visibility),
    )
    run, created = launch_once(requester, launch_request, "clone", key, payload, source=slug)
    return Status(201 if created else 200, run_detail(request, run))


def requested_launch(requester: Caller, payload: NewRun) -> LaunchRequest:
    """Return the request of a body. Raises Problem 404 or 422, and PermissionDenied."""
    team = requester.team_to_write_in(payload.team)
    config, preset = requested_config(payload)
    return LaunchRequest(
        requester.user,
        team,
        config,
        preset,
        group=payload.group.strip(),
        scheduling=SchedulingOptions(payload.queue or "", payload.gpus, Run.Priority[payload.priority.upper()]),
        visibility=Run.Visibility(payload.visibility),
    )


def launch_once(
    requester: Caller,
    launch_request: LaunchRequest,
    operation: str,
    key: str | None,
    payload: NewRun | CloneOptions,
    **place: str,
) -> tuple[Run, bool]:
    """Return the first run of the launch, or of the earlier launch with this key, and True if it is new.

    Args:
        place: team or source of the run, which distinguishes requests with the same payload.
    Raises:
        Problem: 422, and as do_once. Also raises as do_launch.
    """
    launch = plan_launch(launch_request, requester.runs())
    if launch.errors:
        raise invalid(launch.errors)
    identity = payload.model_dump(mode="json") | place
    return do_once(requester.user, operation, key, identity, lambda: do_launch(launch)[0])


def _find_priority(requester: Caller, team_id: int, name: str) -> Run.Priority:
    """Return the priority of that name. Raises PermissionDenied if the caller may not use it."""
    priority = Run.Priority[name.upper()]
    require_may_prefer(requester.user, team_id, priority)
    return priority


def requested_config(payload: NewRun) -> tuple[RunConfig, str]:
    """Return the requested configuration and its preset."""
    if (payload.config is None) == (payload.preset is None):
        raise invalid({"config": "give either a configuration or the name of a preset, not both"})
    preset = "" if payload.preset is None else find_preset(payload.preset)
    if preset is None:
        raise invalid({"preset": f"must be one of {', '.join(preset_names())}"})
    return _with_overrides(payload.config or load_preset(preset), payload.overrides), preset


def _config(data: dict[str, Any]) -> RunConfig:
    try:
        return RunConfig.model_validate(data)
    except ValidationError as error:
        raise invalid(dict(as_messages(error.errors()))) from None


def _with_overrides(config: RunConfig, overrides: dict[str, Any]) -> RunConfig:
    try:
        return storable(with_values(config, overrides))
    except UnknownSetting as error:
        raise invalid({error.name: "there is no setting of this name"}) from None
    except ValidationError as error:
        raise invalid(dict(as_messages(error.errors()))) from None


def storable(config: RunConfig) -> RunConfig:
    """Return the configuration if the database can store it. Raises Problem 422."""
    try:
        json.dumps(config.model_dump(mode="json"), allow_nan=False, ensure_ascii=False).encode()
    except ValueError:
        raise invalid({"config": "holds a number or a character that cannot be stored"}) from None
    if len(config.title()) > 200:
        raise invalid({"name": "the title generated from this configuration is too long: give it a name"})
    return config


@router.get("/runs/{slug}", response={200: RunDetail} | refused(), operation_id="get_run", summary="Read a run")
def get_run(request: HttpRequest, slug: RunSlug) -> RunDetail:
    """A run with its complete configuration."""
    return run_detail(request, caller(request).run(slug))


@router.get(
    "/runs/{slug}/config.yaml",
    response={200: None} | refused(),
    operation_id="get_run_config",
    summary="Read a run's configuration as YAML",
    openapi_extra={"responses": {200: {"content": {"application/yaml": {"schema": {"type": "object"}}}}}},
)
def get_run_config(request: HttpRequest, slug: RunSlug) -> HttpResponse:
    """The file for `python -m trainer train --config`; of another trainer's run, the settings that it recorded."""
    run = caller(request).run(slug)
    settings = ordered_dump(run.config) if run.recorded is None else run.recorded
    return HttpResponse(yaml_text(settings), content_type="application/yaml; charset=utf-8")


@router.patch("/runs/{slug}", response={200: RunDetail} | refused(409), operation_id="update_run", summary="Edit a run")
def update_run(request: HttpRequest, slug: RunSlug, payload: RunPatch) -> RunDetail:
    """Change title, tags, notes, group, visibility or priority, and archive the run. 409 if it cannot be yet."""
    requester = caller(request)
    run = requester.run_to_change(slug)
    visibility = None if payload.visibility is None else Run.Visibility(payload.visibility)
    if visibility is not None and visibility != run.visibility:
        require_may_set(requester.user, run, visibility)
    priority = None if payload.priority is None else _find_priority(requester, run.team_id, payload.priority)
    title = None if payload.title is None else payload.title.strip()
    notes = payload.notes
    with transaction.atomic():
        if payload.archived is not None:
            run = do_archive_run(run, payload.archived)
        do_update_run(
            run,
            title=title,
            tags=payload.tags,
            notes=notes,
            visibility=visibility,
            priority=priority,
            group=None if payload.group is None else payload.group.strip(),
        )
    return run_detail(request, run)


@router.post(
    "/runs/{slug}/control",
    response={200: RunDetail} | refused(409),
    operation_id="control_run",
    summary="Pause, resume, stop or cancel a run",
)
def control_run(request: HttpRequest, slug: RunSlug, payload: RunControl) -> RunDetail:
    """409 with an explanation if the run's state does not permit the action."""
    return run_detail(request, do_request(caller(request).run_to_change(slug), payload.action))


class Confirmation(Schema):
    confirm: Annotated[Slug, Field(description="The run's slug once more.")]


@router.delete(
    "/runs/{slug}", response={204: None} | refused(409), operation_id="delete_run", summary="Delete a run for good"
)
def delete_run(request: HttpRequest, slug: RunSlug, sure: Query[Confirmation]) -> Status[None]:
    """Deletes its trajectories, shares, annotations and files. Only ended runs; only by the author or admins."""
    requester = caller(request)
    run = requester.run_to_change(slug)
    require_may_delete(requester.user, run)
    if sure.confirm != run.slug:
        raise invalid({"confirm": f"must be {run.slug}: deletion cannot be undone"})
    do_delete_run(run)
    return Status(204, None)
