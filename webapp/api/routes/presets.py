"""Endpoints of the shipped presets: list and read."""

from __future__ import annotations

from django.http import HttpRequest
from ninja import Router

from trainer.config.files import find_preset, load_preset, ordered_dump, preset_names
from webapp.api.errors import Problem, refused
from webapp.api.schemas.catalogue_schemas import CatalogueName, PresetDetail, PresetOut
from webapp.runs.summaries import algorithm_text, length_text

router = Router(tags=["catalogue"])


@router.get(
    "/presets",
    response={200: list[PresetOut]} | refused(),
    operation_id="list_presets",
    summary="List the shipped presets",
)
def list_presets(request: HttpRequest) -> list[PresetOut]:
    """Complete configurations to launch unchanged or with overrides."""
    return [_preset(name) for name in preset_names()]


@router.get(
    "/presets/{name}",
    response={200: PresetDetail} | refused(),
    operation_id="get_preset",
    summary="Read a preset",
)
def get_preset(request: HttpRequest, name: CatalogueName) -> PresetDetail:
    """A preset with its configuration."""
    preset = find_preset(name)
    if preset is None:
        raise Problem(404, f"There is no preset {name}; there are {', '.join(preset_names())}.")
    config = ordered_dump(load_preset(preset).model_dump(mode="json"))
    return PresetDetail(**_preset(preset).model_dump(), config=config)


def _preset(name: str) -> PresetOut:
    config = load_preset(name)
    return PresetOut(
        name=name,
        environment=config.environment.name,
        title=config.title(),
        algorithm=algorithm_text(config.model_dump()),
        size=length_text(config),
    )
