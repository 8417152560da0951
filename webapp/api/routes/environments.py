"""Endpoints of the environments: list and read."""

from __future__ import annotations

from django.http import HttpRequest
from ninja import Router

import envs
from envs.adapters.packages import no_such_variant
from webapp.api.errors import Problem, refused
from webapp.api.schemas.catalogue_schemas import CatalogueName, EnvironmentDetail, EnvironmentOut, VariantId
from webapp.play.environment_info import sample

router = Router(tags=["catalogue"])


@router.get(
    "/environments",
    response={200: list[EnvironmentOut]} | refused(),
    operation_id="list_environments",
    summary="List environments",
)
def list_environments(request: HttpRequest) -> list[EnvironmentOut]:
    """Built-in environments first, then environments of installed packages."""
    return [_environment(name) for name in envs.names()]


@router.get(
    "/environments/{name}",
    response={200: EnvironmentDetail} | refused(),
    operation_id="get_environment",
    summary="Read an environment",
)
def get_environment(request: HttpRequest, name: CatalogueName, id: VariantId = "") -> EnvironmentDetail:
    """An environment with its rules and settings; `id` chooses a variant of an adapter."""
    if name not in envs.names():
        missing = envs.missing_adapters().get(name)
        raise Problem(404, missing or f"There is no environment {name}; there are {', '.join(envs.names())}.")
    variants = envs.variants(name)
    if id and id not in variants:
        raise Problem(
            404, no_such_variant(name, id, variants) if variants else f"{name} has no variants and takes no id."
        )
    spec = sample(name, id).spec
    return EnvironmentDetail(
        **_environment(name).model_dump(),
        spec=spec.model_dump(mode="json") if spec else {},
        settings_schema=envs.settings_model(name).model_json_schema(),
        variants=variants,
    )


def _environment(name: str) -> EnvironmentOut:
    if envs.variants(name) or envs.needs_variant(name):
        return EnvironmentOut(name=name, title=name, summary=envs.about(name))
    example = sample(name)
    if example.spec is None:
        return EnvironmentOut(name=name, title=name, summary=f"It cannot be loaded: {example.problem}")
    return EnvironmentOut(name=name, title=example.spec.title, summary=example.spec.summary)
