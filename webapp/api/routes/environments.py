"""Endpoints of the environments: list and read."""

from __future__ import annotations

from django.http import HttpRequest
from ninja import Router

import envs
from webapp.api import schemas
from webapp.api.errors import Problem, refused
from webapp.play.environment_info import sample

router = Router(tags=["catalogue"])


@router.get(
    "/environments",
    response={200: list[schemas.EnvironmentOut]} | refused(),
    operation_id="list_environments",
    summary="List environments",
)
def list_environments(request: HttpRequest) -> list[schemas.EnvironmentOut]:
    """Built-in environments first, then those of installed packages."""
    return [_environment(name) for name in envs.names()]


@router.get(
    "/environments/{name}",
    response={200: schemas.EnvironmentDetail} | refused(),
    operation_id="get_environment",
    summary="Read an environment",
)
def get_environment(request: HttpRequest, name: schemas.CatalogueName) -> schemas.EnvironmentDetail:
    """An environment with its rules and settings."""
    if name not in envs.names():
        raise Problem(404, f"There is no environment {name}; there are {', '.join(envs.names())}.")
    spec = sample(name).spec
    return schemas.EnvironmentDetail(
        **_environment(name).model_dump(),
        spec=spec.model_dump(mode="json") if spec else {},
        settings_schema=envs.settings_model(name).model_json_schema(),
    )


def _environment(name: str) -> schemas.EnvironmentOut:
    example = sample(name)
    if example.spec is None:
        return schemas.EnvironmentOut(name=name, title=name, summary=f"It cannot be loaded: {example.problem}")
    return schemas.EnvironmentOut(name=name, title=example.spec.title, summary=example.spec.summary)
