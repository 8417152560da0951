"""Differences of two configurations as overrides, and configurations with overrides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainer.config.environment import BUDGETS, recommended_budgets
from trainer.config.files import open_budgets, recommended_before
from trainer.config.run import RunConfig


def changes(config: RunConfig, base: RunConfig) -> dict[str, Any]:
    """Dotted name → value of every setting to change in the base, as for `--set` and the API's overrides.

    Budgets that follow another environment than that of the base, or other settings of it, are compared with its own:
    overrides take them along.
    """
    before = base.model_dump(mode="json")
    environment = config.environment
    replaced = environment.name != base.environment.name
    if replaced or environment.settings != base.environment.settings:
        own = recommended_budgets(environment.name, environment.settings)
        before["rollout"] |= {budget: own[budget] for budget in (BUDGETS if replaced else recommended_before(base))}
    return _changes(config.model_dump(mode="json"), before, RunConfig.model_fields, "")


def _changes(
    now: Mapping[str, Any], before: Mapping[str, Any], fields: Mapping[str, Any], prefix: str
) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, field in fields.items():
        inner = getattr(field.annotation, "model_fields", None)
        if inner is not None:
            result |= _changes(now[name], before[name], inner, f"{prefix}{name}.")
        elif now[name] != before[name]:
            result[prefix + name] = now[name]
    return result


def with_changes(config: RunConfig, overrides: Mapping[str, Any]) -> RunConfig:
    """The configuration with dotted settings changed.

    Raises:
        ValueError: an unknown setting, or (pydantic's ValidationError) an invalid value.
    """
    data: dict[str, Any] = config.model_dump()
    for name, value in overrides.items():
        *path, last = name.split(".")
        place = data
        for part in path:
            inner = place.get(part)
            if not isinstance(inner, dict):
                raise ValueError(f"{name}: there is no setting of this name")
            place = inner
        place[last] = value
    open_budgets(data, config, overrides)
    return RunConfig.model_validate(data)
