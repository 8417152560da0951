"""Environment section of RunConfig: one environment, or several with their shares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import field_validator, model_validator

import envs
from trainer.config.base import Section, setting

BUDGETS = {"max_turns": 100, "max_actions_per_turn": 100, "max_actions": 1000}
"""Budgets of an episode that belong to its environment, with their upper limits."""


class EnvironmentConfig(Section):
    """Environment of the agent, or a mixture of several."""

    name: str = setting("Sokoban", "Name of a registered environment.")
    settings: dict[str, Any] = setting({}, "Settings of the environment, as listed for each of them.")
    instruction: str | None = setting(None, "Wording of the task in the prompt; empty = the environment's own.")
    others: dict[str, float] = setting(
        {},
        "Further environments of the run with their shares of the groups, as in FrozenLake=0.25, Bandit=0.25; the "
        "first environment gets the rest.",
    )
    other_settings: dict[str, Any] = setting({}, "Settings of those environments, as in FrozenLake.size=5.")
    other_budgets: dict[str, int] = setting(
        {},
        "Budgets of those environments instead of their recommended ones, as in FrozenLake.max_turns=3; also "
        "max_actions and max_actions_per_turn. The budgets of `rollout` are those of the first environment.",
    )
    step_timeout: float = setting(
        10.0,
        "Timeout of a reset or step in an environment that runs in a separate process (WebShop, environments of other "
        "packages); exceeding it ends the trajectory.",
        unit="seconds",
        gt=0,
        le=3600,
    )
    start_timeout: float = setting(
        120.0,
        "Timeout for creating such an environment, with its modules and data.",
        unit="seconds",
        gt=0,
        le=86_400,
    )

    @field_validator("other_settings")
    @classmethod
    def check_other_settings(cls, value: dict[str, Any]) -> dict[str, Any]:
        """Settings as the models of their environments validate them."""
        for name, settings in by_environment(value, "other_settings").items():
            validated = envs.settings_model(_registered(name)).model_validate(settings).model_dump(mode="json")
            value = value | {f"{name}.{key}": validated[key] for key in settings}
        return value

    @field_validator("other_budgets")
    @classmethod
    def check_other_budgets(cls, value: dict[str, int]) -> dict[str, int]:
        """Known budgets within their limits."""
        for budgets in by_environment(value, "other_budgets").values():
            for name, number in budgets.items():
                if name not in BUDGETS:
                    raise ValueError(f"{name!r} is not a budget: choose one of {', '.join(BUDGETS)}")
                if not 0 < number <= BUDGETS[name]:
                    raise ValueError(f"{name} must be between 1 and {BUDGETS[name]}, not {number}")
        return value

    @model_validator(mode="after")
    def check_environments(self) -> Self:
        """Registered environments with valid settings and shares."""
        envs.settings_model(_registered(self.name)).model_validate(self.settings)
        for name, share in self.others.items():
            if _registered(name) == self.name:
                raise ValueError(f"environment.others lists {name}, which is environment.name already")
            if not share > 0:
                raise ValueError(f"the share of {name} in environment.others must be above 0, not {share:g}")
        if sum(self.others.values()) >= 1:
            raise ValueError(
                f"environment.others leaves no share for {self.name}: the shares must add up to less than 1"
            )
        for field in ("other_settings", "other_budgets"):
            for name in by_environment(getattr(self, field), field):
                if name not in self.others:
                    raise ValueError(f"environment.{field} names {name}, which is not in environment.others")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """All environments of the run; the main one comes first."""
        return (self.name, *self.others)


def by_environment(flat: Mapping[str, Any], field: str) -> dict[str, dict[str, Any]]:
    """{"FrozenLake.size": 5} as {"FrozenLake": {"size": 5}}. Raises ValueError for a name without a dot."""
    nested: dict[str, dict[str, Any]] = {}
    for key, value in flat.items():
        name, dot, inner = key.rpartition(".")
        if not dot:
            raise ValueError(f"environment.{field} expects Environment.name=value, not {key!r}")
        nested.setdefault(name, {})[inner] = value
    return nested


def _registered(name: str) -> str:
    if name not in envs.names():
        raise ValueError(f"unknown environment {name!r}; choose one of {', '.join(envs.names())}")
    return name
