"""Differences of two configurations as overrides."""

from __future__ import annotations

from typing import Any

from trainer.config.dotted import holder
from trainer.config.environment import BUDGETS, recommended_budgets
from trainer.config.files import recommended_before
from trainer.config.run import RunConfig


def changes(config: RunConfig, base: RunConfig) -> dict[str, Any]:
    """Return {dotted name: value} of every setting to change in the base, as for `--set` and the API's overrides.

    If the environment or its settings differ from the base, budgets are compared with those that the environment
    recommends: overrides of the environment apply them.
    """
    environment = config.environment
    replaced = environment.name != base.environment.name
    if replaced or environment.settings != base.environment.settings:
        recommended = recommended_budgets(environment.name, environment.settings)
        budgets = {budget: recommended[budget] for budget in (BUDGETS if replaced else recommended_before(base))}
        base = base.model_copy(update={"rollout": base.rollout.model_copy(update=budgets)})
    data = config.model_dump(mode="json")
    result = {}
    for name, _, _ in config.differences(base):
        section, last = holder(data, name)
        result[name] = section[last]
    return result
