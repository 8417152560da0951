"""Runs over HTTP: list, launch, read, describe, steer, clone, delete. What they produced is in results.py."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated, Any

import yaml
from django.core.exceptions import PermissionDenied
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from ninja import Query, Router, Schema, Status
from pydantic import Field, ValidationError

from trainer.config.files import (
    as_messages,
    current_names,
    dump_for_overrides,
    find_preset,
    load_preset,
    ordered_dump,
    preset_names,
)
from trainer.config.run import RunConfig
from webapp.api import cursors, schemas
from webapp.api.auth import Caller, caller
from webapp.api.errors import invalid, refused
from webapp.api.idempotency import Key, do_once
from webapp.api.serializers import run_detail, run_out
from webapp.runs.access import require_may_prefer, require_may_set
from webapp.runs.actions import (
    SchedulingOptions,
    do_create_run,
    do_delete_run,
    do_request,
    do_update_run,
    options_for_clone,
)
from webapp.runs.launch import hosted_endpoints
from webapp.runs.models import Run
from webapp.teams.access import may_admin, may_write
from webapp.teams.models import Team

router = Router(tags=["runs"])


class RunFilter(Schema):
    """Which runs to list."""

    state: schemas.State | None = None
    environment: schemas.Text | None = None
    tag: schemas.Text | None = None
    author: schemas.Text | None = Field(None, description="User name.")
    text: schemas.Text | None = Field(None, description="Part of the title, or a tag.")
    limit: schemas.Limit = 30
    cursor: schemas.Cursor = None


@router.get("/runs", response={200: schemas.RunPage} | refused(), operation_id="list_runs", summary="List runs")
def list_runs(request: HttpRequest, wanted: Query[RunFilter]) -> schemas.RunPage:
    """The runs of your teams, newest first. With a token: those of its team."""
    runs = caller(request).runs().select_related("team", "author").defer("log_tail", "config")
    if wanted.state:
        runs = runs.filter(state=wanted.state)
    if wanted.environment:
        runs = runs.filter(environment=wanted.environment)
    if wanted.tag:
        runs = runs.filter(tags__contains=[wanted.tag])
    if wanted.author:
        runs = runs.filter(author__username=wanted.author)
    if wanted.text:
        runs = runs.filter(Q(title__icontains=wanted.text) | Q(tags__contains=[wanted.text]))
    if wanted.cursor:
        moment, slug = cursors.unpack("runs", wanted.cursor)
        created = datetime.fromisoformat(moment)
        runs = runs.filter(Q(created_at__lt=created) | Q(created_at=created, slug__lt=slug))
    found = list(runs.order_by("-created_at", "-slug")[: wanted.limit + 1])
    page, more = found[: wanted.limit], len(found) > wanted.limit
    following = cursors.pack("runs", [page[-1].created_at.isoformat(), page[-1].slug]) if more else None
    return schemas.RunPage(items=[run_out(request, run) for run in page], next_cursor=following)


MADE: dict[int, Any] = {200: schemas.RunDetail, 201: schemas.RunDetail}


@router.post("/runs", response=MADE | refused(409), operation_id="create_run", summary="Launch a run")
def create_run(request: HttpRequest, payload: schemas.NewRun, key: Key = None) -> Status[schemas.RunDetail]:
    """A configuration, or a preset with dotted overrides. The run waits in the queue until a worker is free."""
    who = caller(request)
    team = who.team_to_write_in(payload.team)
    config, preset = _asked(payload)
    asked = payload.model_dump(mode="json") | {"team": team.slug}
    wanted = _priority(who, team.pk, payload.priority)
    return _made(
        request,
        who,
        team,
        "create",
        key,
        asked,
        config,
        preset,
        payload,
        SchedulingOptions(payload.queue or "", payload.gpus, wanted or Run.Priority.NORMAL),
    )


@router.post(
    "/runs/{slug}/clone", response=MADE | refused(409), operation_id="clone_run", summary="Launch a run like another"
)
def clone_run(
    request: HttpRequest, slug: schemas.RunSlug, payload: schemas.CloneOptions, key: Key = None
) -> Status[schemas.RunDetail]:
    """The same configuration with some settings changed. The clone belongs to the same team."""
    who = caller(request)
    source = who.run_to_change(slug)
    config = _with_overrides(_config(source.config), payload.overrides)
    asked = payload.model_dump(mode="json") | {"source": slug}
    wanted, before = _priority(who, source.team_id, payload.priority), options_for_clone(source)
    return _made(
        request,
        who,
        source.team,
        "clone",
        key,
        asked,
        config,
        source.preset,
        payload,
        SchedulingOptions(
            payload.queue or before.queue,
            before.gpus if payload.gpus is None else payload.gpus,
            wanted or Run.Priority.NORMAL,
        ),
    )


def _made(
    request: HttpRequest,
    who: Caller,
    team: Team,
    operation: str,
    key: str | None,
    asked: dict[str, Any],
    config: RunConfig,
    preset: str,
    payload: schemas.NewRun | schemas.CloneOptions,
    wanted: SchedulingOptions,
) -> Status[schemas.RunDetail]:
    if unwanted := hosted_endpoints.problem(config.hosted):
        raise invalid(dict([unwanted]))

    def make() -> Run:
        visibility = Run.Visibility(payload.visibility)
        return do_create_run(team, who.user, config, preset=preset, asked=wanted, visibility=visibility)

    run, fresh = do_once(who.user, operation, key, asked, make)
    return Status(201 if fresh else 200, run_detail(request, run))


def _priority(who: Caller, team_id: int, name: str | None) -> Run.Priority | None:
    """The priority of that name. Raises PermissionDenied for what the caller may not ask for."""
    if name is None:
        return None
    wanted = Run.Priority[name.upper()]
    require_may_prefer(who.user, team_id, wanted)
    return wanted


def _asked(payload: schemas.NewRun) -> tuple[RunConfig, str]:
    """The configuration that is meant, and the preset it comes from."""
    if (payload.config is None) == (payload.preset is None):
        raise invalid({"config": "give either a configuration or the name of a preset, not both and not neither"})
    if payload.config is not None:
        return _with_overrides(payload.config, payload.overrides), ""
    preset = find_preset(payload.preset or "")
    if preset is None:
        raise invalid({"preset": f"is none of {', '.join(preset_names())}"})
    return _with_overrides(load_preset(preset), payload.overrides), preset


def _config(data: dict[str, Any]) -> RunConfig:
    try:
        return RunConfig.model_validate(data)
    except ValidationError as error:
        raise invalid(dict(as_messages(error.errors()))) from None


def _with_overrides(config: RunConfig, overrides: dict[str, Any]) -> RunConfig:
    try:
        names = current_names(overrides)
    except ValueError as error:
        raise invalid({"overrides": str(error)}) from None
    data = dump_for_overrides(config, names)
    for name, value in overrides.items():
        *path, last = names[name].split(".")
        place = data
        for part in path:
            inner = place.get(part)
            if not isinstance(inner, dict):
                raise invalid({name: "there is no setting of this name"})
            place = inner
        place[last] = value
    return storable(_config(data))


def storable(config: RunConfig) -> RunConfig:
    """The configuration, if the database can keep it. Raises Problem 422."""
    try:
        text = json.dumps(config.model_dump(mode="json"), allow_nan=False, ensure_ascii=False)
        text.encode()
    except ValueError:
        raise invalid({"config": "holds a number or a character that cannot be stored"}) from None
    if "\\u0000" in text:
        raise invalid({"config": "holds a NUL character"})
    if len(config.title()) > 200:
        raise invalid({"name": "the title made from this configuration is too long: give it a name"})
    return config


@router.get("/runs/{slug}", response={200: schemas.RunDetail} | refused(), operation_id="get_run", summary="Read a run")
def get_run(request: HttpRequest, slug: schemas.RunSlug) -> schemas.RunDetail:
    """With its complete configuration."""
    return run_detail(request, caller(request).run(slug))


@router.get(
    "/runs/{slug}/config.yaml",
    response={200: None} | refused(),
    operation_id="get_run_config",
    summary="Read a run's configuration as YAML",
    openapi_extra={"responses": {200: {"content": {"application/yaml": {"schema": {"type": "object"}}}}}},
)
def get_run_config(request: HttpRequest, slug: schemas.RunSlug) -> HttpResponse:
    """What `python -m trainer train --config` takes."""
    run = caller(request).run(slug)
    text = yaml.safe_dump(ordered_dump(run.config), sort_keys=False, allow_unicode=True)
    return HttpResponse(text, content_type="application/yaml; charset=utf-8")


@router.patch(
    "/runs/{slug}", response={200: schemas.RunDetail} | refused(), operation_id="update_run", summary="Describe a run"
)
def update_run(request: HttpRequest, slug: schemas.RunSlug, payload: schemas.RunPatch) -> schemas.RunDetail:
    """Title, tags, visibility and priority."""
    who = caller(request)
    run = who.run_to_change(slug)
    visibility = None if payload.visibility is None else Run.Visibility(payload.visibility)
    if visibility is not None and visibility != run.visibility:
        require_may_set(who.user, run, visibility)
    wanted = _priority(who, run.team_id, payload.priority)
    title = None if payload.title is None else payload.title.strip()
    return run_detail(
        request, do_update_run(run, title=title, tags=payload.tags, visibility=visibility, priority=wanted)
    )


@router.post(
    "/runs/{slug}/control",
    response={200: schemas.RunDetail} | refused(409),
    operation_id="control_run",
    summary="Pause, resume, stop or cancel a run",
)
def control_run(request: HttpRequest, slug: schemas.RunSlug, payload: schemas.RunControl) -> schemas.RunDetail:
    """409 with a sentence when the run is not in a state in which this can be asked of it."""
    return run_detail(request, do_request(caller(request).run_to_change(slug), payload.action))


class Confirmation(Schema):
    confirm: Annotated[schemas.Slug, Field(description="The run's slug once more.")]


@router.delete(
    "/runs/{slug}", response={204: None} | refused(409), operation_id="delete_run", summary="Delete a run for good"
)
def delete_run(request: HttpRequest, slug: schemas.RunSlug, sure: Query[Confirmation]) -> Status[None]:
    """With its trajectories, shares, annotations and files. Only runs that have ended; only by author or admins."""
    who = caller(request)
    run = who.run_to_change(slug)
    _require_author(who, run, "delete it")
    if sure.confirm != run.slug:
        raise invalid({"confirm": f"must be {run.slug}: what is deleted cannot be brought back"})
    do_delete_run(run)
    return Status(204, None)


def _require_author(who: Caller, run: Run, what: str) -> None:
    author = run.author_id == who.user.pk and may_write(who.user, run.team_id)
    if not author and not may_admin(who.user, run.team_id):
        raise PermissionDenied(f"Only the author of this run and the admins of its team may {what}.")
