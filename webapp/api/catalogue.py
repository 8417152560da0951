"""What does not belong to one run, over HTTP: who is asking, environments, presets, workers. Reads only."""

from __future__ import annotations

from typing import Annotated, Any

from django.db.models import Prefetch
from django.http import HttpRequest
from django.utils import timezone
from ninja import Path, Router

import envs
from trainer.config.files import find_preset, load_preset, ordered_dump, preset_names
from webapp.api import schemas
from webapp.api.auth import caller
from webapp.api.errors import Problem, refused
from webapp.play.environment_info import sample
from webapp.runs.models import Run, Worker
from webapp.runs.queue.order import ALIVE
from webapp.runs.summaries import algorithm_words, size_words
from webapp.teams.access import role_in

router = Router(tags=["catalogue"])
Name = Annotated[str, Path(max_length=100, pattern=r"^[^\x00/]+$")]


@router.get("/me", response={200: schemas.Me} | refused(), operation_id="get_me", summary="Who you are")
def get_me(request: HttpRequest) -> schemas.Me:
    """Your name, what your token allows, and your teams. With a token: its team."""
    who = caller(request)
    roles = [(team, role_in(who.user, team.pk)) for team in who.teams()]
    teams = [{"slug": team.slug, "name": team.name, "role": role.value} for team, role in roles if role]
    return schemas.Me.model_validate({"username": who.user.username, "scopes": list(who.scopes), "teams": teams})


@router.get(
    "/environments",
    response={200: list[schemas.EnvironmentOut]} | refused(),
    operation_id="list_environments",
    summary="List environments",
)
def list_environments(request: HttpRequest) -> list[schemas.EnvironmentOut]:
    """Built-in ones first, then those of installed packages."""
    return [_environment(name) for name in envs.names()]


@router.get(
    "/environments/{name}",
    response={200: schemas.EnvironmentDetail} | refused(),
    operation_id="get_environment",
    summary="Read an environment",
)
def get_environment(request: HttpRequest, name: Name) -> schemas.EnvironmentDetail:
    """Its rules, and the settings that a run can give it."""
    if name not in envs.names():
        raise Problem(404, f"There is no environment {name}; there are {', '.join(envs.names())}.")
    spec = sample(name).spec
    return schemas.EnvironmentDetail(
        **_environment(name).model_dump(),
        spec=spec.model_dump(mode="json") if spec else {},
        settings_schema=envs.settings_model(name).model_json_schema(),
    )


def _environment(name: str) -> schemas.EnvironmentOut:
    shown = sample(name)
    if shown.spec is None:
        return schemas.EnvironmentOut(name=name, title=name, summary=f"It cannot be shown: {shown.problem}")
    return schemas.EnvironmentOut(name=name, title=shown.spec.title, summary=shown.spec.summary)


@router.get(
    "/presets",
    response={200: list[schemas.PresetOut]} | refused(),
    operation_id="list_presets",
    summary="List the shipped presets",
)
def list_presets(request: HttpRequest) -> list[schemas.PresetOut]:
    """Complete configurations to launch as they are, or with overrides."""
    return [_preset(name) for name in preset_names()]


@router.get(
    "/presets/{name}",
    response={200: schemas.PresetDetail} | refused(),
    operation_id="get_preset",
    summary="Read a preset",
)
def get_preset(request: HttpRequest, name: Name) -> schemas.PresetDetail:
    """With its configuration."""
    found = find_preset(name)
    if found is None:
        raise Problem(404, f"There is no preset {name}; there are {', '.join(preset_names())}.")
    config = ordered_dump(load_preset(found).model_dump(mode="json"))
    return schemas.PresetDetail(**_preset(found).model_dump(), config=config)


def _preset(name: str) -> schemas.PresetOut:
    config = load_preset(name)
    return schemas.PresetOut(
        name=name,
        environment=config.environment.name,
        title=config.title(),
        algorithm=algorithm_words(config.model_dump()),
        size=size_words(config),
    )


@router.get(
    "/workers",
    response={200: list[schemas.WorkerOut]} | refused(),
    operation_id="list_workers",
    summary="List workers",
)
def list_workers(request: HttpRequest) -> list[schemas.WorkerOut]:
    """Who takes runs from the queue, on which device, and what of yours it trains."""
    now = timezone.now()
    held = Prefetch("runs", caller(request).runs().filter(state__in=Run.HELD), to_attr="held")
    return [
        schemas.WorkerOut(
            name=worker.name,
            device=worker.device,
            device_class=worker.device_class,
            queues=worker.queues,
            slots=worker.slots,
            gpus=[_gpu(gpu, worker.held) for gpu in worker.gpus],
            alive=now - worker.last_seen_at < ALIVE,
            stopping=worker.stopping,
            started_at=worker.started_at,
            last_seen_at=worker.last_seen_at,
            runs=[run.slug for run in worker.held],
        )
        for worker in Worker.objects.order_by("name").prefetch_related(held)
    ]


def _gpu(gpu: dict[str, Any], held: list[Run]) -> schemas.GpuOut:
    return schemas.GpuOut(**gpu, runs=[run.slug for run in held if gpu["id"] in run.reserved])
