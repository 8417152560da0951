"""Configurations as people meet them: presets, YAML files, and problems told in words. What exists is in config.py."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from trainer.config.run import RunConfig

PRESETS = Path(__file__).parent / "presets"


SHORT_NAMES = {
    "bandit-pocket": "bandit-starpo_s-pocket",
    "frozen_lake-pocket": "frozen_lake-starpo_s-pocket",
    "sokoban-pocket": "sokoban-starpo_s-pocket",
    "sokoban-paper": "sokoban-starpo_s-paper",
}
"""Other names of presets, as the demo, the documents and earlier runs have them."""


def preset_names() -> list[str]:
    """Names of the shipped presets, sorted: <environment>-<starpo or starpo_s>-<paper or pocket>."""
    return sorted(path.stem for path in PRESETS.glob("*.yaml"))


def find_preset(name: str) -> str | None:
    """The shipped preset that a full or short name means; None for any other text."""
    name = SHORT_NAMES.get(name, name)
    return name if name in preset_names() else None


def load_preset(name: str) -> RunConfig:
    """The shipped preset of that full or short name. Raises ValueError naming the choices when there is none."""
    found = find_preset(name)
    if found is None:
        raise ValueError(f"unknown preset {name!r}; choose one of {', '.join(preset_names())}")
    return _shipped(found).model_copy(deep=True)  # callers change theirs


@cache
def _shipped(name: str) -> RunConfig:
    text = (PRESETS / f"{name}.yaml").read_text(encoding="utf-8")
    return RunConfig.model_validate(yaml.safe_load(text) or {})


def load_yaml(path: Path) -> RunConfig:
    """A RunConfig from a YAML file. Raises ValueError with one line per problem, each naming its field."""
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is not valid YAML: {error}") from None
    if not isinstance(data, dict):
        raise ValueError(f"{path} must hold a mapping of settings, not {type(data).__name__}")
    return RunConfig.model_validate(data)


def with_overrides(config: RunConfig, pairs: Sequence[str]) -> RunConfig:
    """The configuration with `section.field=value` changes (values in YAML). Raises ValueError naming a bad pair."""
    data: dict[str, Any] = config.model_dump()
    for pair in pairs:
        name, found, text = pair.partition("=")
        if not found:
            raise ValueError(f"--set takes section.field=value, not {pair!r}")
        *path, last = name.strip().split(".")
        place = data
        for part in path:
            if not isinstance(place.get(part), dict):
                raise ValueError(f"--set {pair}: there is no section {part!r}")
            place = place[part]
        try:
            place[last] = yaml.safe_load(text)
        except yaml.YAMLError:
            raise ValueError(f"--set {pair}: the value is not valid YAML; put special signs in quotes") from None
    return RunConfig.model_validate(data)


def ordered_dump(data: Mapping[str, Any], model: type[BaseModel] = RunConfig) -> dict[str, Any]:
    """The same settings in the order of the model's fields, unknown ones last: databases and JSON lose the order."""
    ordered = {}
    known = [name for name in model.model_fields if name in data]
    for name in [*known, *(name for name in data if name not in model.model_fields)]:
        field = model.model_fields.get(name)
        inner, value = (field.annotation if field else None), data[name]
        if isinstance(value, Mapping) and isinstance(inner, type) and issubclass(inner, BaseModel):
            value = ordered_dump(value, inner)
        ordered[name] = value
    return ordered


def validation_errors(error: ValidationError) -> list[tuple[str, str]]:
    """A validation error in human words: (dotted field, sentence) for each problem."""
    return as_messages(error.errors())


def as_messages(errors: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Pydantic's list of errors in human words: (dotted field, sentence) for each problem."""
    problems = []
    for item in errors:
        where = ".".join(str(part) for part in item["loc"])
        context = item.get("ctx", {})
        match item["type"]:
            case "extra_forbidden":
                text = "there is no setting of this name"
            case "missing":
                text = "is required"
            case "int_parsing" | "int_type" | "int_from_float":
                text = f"must be a whole number, not {item['input']!r}"
            case "float_parsing" | "float_type":
                text = f"must be a number, not {item['input']!r}"
            case "bool_parsing" | "bool_type":
                text = f"must be on or off, not {item['input']!r}"
            case "greater_than":
                text = f"must be greater than {context['gt']}"
            case "greater_than_equal":
                text = f"must be at least {context['ge']}"
            case "less_than":
                text = f"must be less than {context['lt']}"
            case "less_than_equal":
                text = f"must be at most {context['le']}"
            case "literal_error":
                text = f"must be {context['expected']}"
            case "value_error":
                text = str(context["error"])
            case _:
                text = item["msg"]
        problems.append((where, text))
    return problems
