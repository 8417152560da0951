"""Presets, YAML files, overrides and readable validation messages of RunConfig."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

import envs
from trainer.config.base import error_text
from trainer.config.dotted import UnknownSetting, put
from trainer.config.environment import BUDGETS, recommended_budgets
from trainer.config.override_text import get_annotation, parse_value
from trainer.config.removed import removal_text, stored_config
from trainer.config.run import RunConfig

PRESETS = Path(__file__).parent / "presets"


Defaults = Mapping[str, Mapping[str, Any]]
"""Section → setting → a command's value if a preset or file leaves it out."""
NO_DEFAULTS: Defaults = {}

SHORT_NAMES = {
    "bandit-pocket": "bandit-starpo_s-pocket",
    "frozen_lake-pocket": "frozen_lake-starpo_s-pocket",
    "sokoban-pocket": "sokoban-starpo_s-pocket",
    "sokoban-paper": "sokoban-starpo_s-paper",
}
"""Short names of presets, used by the demo, the documentation and earlier runs."""


def preset_names() -> list[str]:
    """Return the sorted names of the shipped presets: <environment>-<starpo or starpo_s>-<paper, pocket or trap>."""
    return sorted(path.stem for path in PRESETS.glob("*.yaml"))


def find_preset(name: str) -> str | None:
    """Find the preset with that full or short name; None if there is none."""
    name = SHORT_NAMES.get(name, name)
    return name if name in preset_names() else None


def load_preset(name: str, defaults: Defaults = NO_DEFAULTS) -> RunConfig:
    """Load the preset with that full or short name, over the defaults.

    Raises:
        ValueError: there is no such preset; the message lists the choices.
    """
    preset = find_preset(name)
    if preset is None:
        raise ValueError(f"unknown preset {name!r}; choose one of {', '.join(preset_names())}")
    if defaults:
        return RunConfig.model_validate(_over(defaults, _preset_data(preset)))
    return _shipped(preset).model_copy(deep=True)  # callers may change it


@cache
def _shipped(name: str) -> RunConfig:
    return RunConfig.model_validate(_preset_data(name))


def _preset_data(name: str) -> dict[str, Any]:
    return yaml.safe_load((PRESETS / f"{name}.yaml").read_text(encoding="utf-8")) or {}


def _over(defaults: Defaults, data: Mapping[str, Any]) -> dict[str, Any]:
    """Complete the data with the defaults of missing settings."""
    result = dict(data)
    for section, values in defaults.items():
        present = data.get(section, {})
        if isinstance(present, Mapping):  # anything else is reported when the settings are validated
            result[section] = {**values, **present}
    return result


def load_yaml(path: Path, defaults: Defaults = NO_DEFAULTS) -> RunConfig:
    """Load a RunConfig from a YAML file, over the defaults.

    Raises:
        ValueError: the message has one line per problem, each naming its field.
    """
    return RunConfig.model_validate(_over(defaults, _mapping(path)))


def load_stored(path: Path) -> RunConfig:
    """Load the configuration that a run wrote to its folder, possibly with settings that were removed later.

    Raises:
        ValueError: see `load_yaml`.
    """
    return stored_config(_mapping(path))


def _mapping(path: Path) -> dict[str, Any]:
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is not valid YAML: {error}") from None
    if not isinstance(data, dict):
        raise ValueError(f"{path} must hold a mapping of settings, not {type(data).__name__}")
    return data


def with_overrides(config: RunConfig, pairs: Sequence[str]) -> RunConfig:
    """Apply `section.field=value` changes to the configuration. Raises ValueError naming a bad pair.

    Values are YAML, but text fields take the text literally (`override_text.parse_value`).
    """
    texts: list[tuple[str, str, str]] = []
    for pair in pairs:
        name, separator, text = pair.partition("=")
        if not separator:
            raise ValueError(f"--set takes section.field=value, not {pair!r}")
        texts.append((pair, name.strip(), text))
    environment = {name: text.strip() for _, name, text in texts}.get("environment.name", config.environment.name)
    values: dict[str, Any] = {}
    pair_of: dict[str, str] = {}
    for pair, name, text in texts:
        try:
            values[name] = parse_value(text, get_annotation(RunConfig, name.split("."), environment))
        except ValueError as error:
            raise ValueError(f"--set {pair}: {error}") from None
        pair_of[name] = pair
    try:
        return with_values(config, values)
    except UnknownSetting as error:
        raise ValueError(f"--set {pair_of[error.name]}: there is no section {error.section!r}") from None


def with_values(config: RunConfig, values: Mapping[str, Any]) -> RunConfig:
    """Return the configuration with new values of settings, by dotted name.

    Raises:
        ValueError: a setting is unknown (UnknownSetting), or a value is invalid (pydantic's ValidationError).
    """
    data: dict[str, Any] = config.model_dump()
    for name, value in values.items():
        put(data, name, value)
    open_budgets(data, config, values)
    return RunConfig.model_validate(data)


def open_budgets(data: dict[str, Any], before: RunConfig, names: Iterable[str]) -> None:
    """Reset the budgets that depend on changed settings of the environment, except the ones assigned in `names`.

    Budgets belong to an environment: the budgets of `before` do not apply to its replacement, nor do settings that the
    replacement lacks, or the paper's prompts if the paper has none. If only the environment's settings change, such as
    the variant of an adapter, budgets that equal the recommended ones follow.
    """
    environment, rollout = data.get("environment"), data.get("rollout")
    assigned = set(names)
    if not isinstance(environment, Mapping) or not isinstance(rollout, dict) or "rollout" in assigned:
        return
    replaced = environment.get("name") != before.environment.name
    if not replaced and environment.get("settings") == before.environment.settings:
        return
    if replaced and isinstance(environment, dict) and "environment" not in assigned:
        drop_unsuited(environment, rollout, assigned)
    for budget in BUDGETS if replaced else recommended_before(before):
        if f"rollout.{budget}" not in assigned:
            rollout.pop(budget, None)


def drop_unsuited(environment: dict[str, Any], rollout: dict[str, Any], assigned: Collection[str] = ()) -> None:
    """Drop settings of a replaced environment that do not suit the new one, except the assigned names."""
    name, settings = environment.get("name"), environment.get("settings")
    if name not in envs.names():
        return  # reported when the settings are validated
    if isinstance(settings, dict) and "environment.settings" not in assigned:
        known = envs.settings_model(name).model_fields
        for setting in [setting for setting in settings if setting not in known]:
            if f"environment.settings.{setting}" not in assigned:
                del settings[setting]
    if rollout.get("format_line") == "paper" and "rollout.format_line" not in assigned:
        with suppress(ValueError):  # reported when the settings are validated
            rollout["format_line"] = "paper" if envs.spec(name, settings).paper_instruction else "auto"


def recommended_before(config: RunConfig) -> list[str]:
    """Return the names of the budgets that equal the environment's recommendation."""
    recommended = recommended_budgets(config.environment.name, config.environment.settings)
    return [budget for budget in BUDGETS if getattr(config.rollout, budget) == recommended[budget]]


def ordered_dump(data: Mapping[str, Any], model: type[BaseModel] = RunConfig) -> dict[str, Any]:
    """Order settings like the model's fields, with unknown ones last: databases and JSON lose the order."""
    ordered = {}
    fields = [name for name in model.model_fields if name in data]
    for name in [*fields, *(name for name in data if name not in model.model_fields)]:
        field = model.model_fields.get(name)
        inner, value = (field.annotation if field else None), data[name]
        if isinstance(value, Mapping) and isinstance(inner, type) and issubclass(inner, BaseModel):
            value = ordered_dump(value, inner)
        elif isinstance(value, list) and (entry := entry_model(inner)):
            value = [ordered_dump(part, entry) if isinstance(part, Mapping) else part for part in value]
        ordered[name] = value
    return ordered


def entry_model(annotation: Any) -> type[BaseModel] | None:
    """Return the model of the entries of a list of settings; None for any other annotation."""
    return next((kind for kind in get_args(annotation) if isinstance(kind, type) and issubclass(kind, BaseModel)), None)


def validation_errors(error: ValidationError) -> list[tuple[str, str]]:
    """Return (dotted field, message) for each problem of a validation error."""
    return as_messages(error.errors())


def as_messages(errors: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return (dotted field, message) for each of pydantic's errors."""
    problems = []
    for item in errors:
        field = ".".join(str(part) for part in item["loc"])
        text = removal_text(field) or error_text(item)
        problems.append(_named_field(field, text) if item["type"] == "value_error" else (field, text))
    return problems


def _named_field(field: str, text: str) -> tuple[str, str]:
    """Move the name of a setting at the beginning of a message into the field: (field, message) without repetition."""
    match = re.match(r"([a-z_]+)\.([a-z_0-9]+):? ", text)
    if match is None:
        return field, text
    section, name = match[1], match[2]
    model = _get_section(RunConfig, section)
    if model is None or name not in model.model_fields or not f".{field or section}".endswith(f".{section}"):
        return field, text
    return f"{field or section}.{name}", text[match.end() :]


def _get_section(model: type[BaseModel], name: str) -> type[BaseModel] | None:
    """Return the model of a field, if the field is a section of settings."""
    field = model.model_fields.get(name)
    kind = field.annotation if field else None
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None
