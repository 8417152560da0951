"""The section of RunConfig about where the agent lives: one environment, or several with their shares.

How the groups of an iteration are dealt out among them stands in tasks.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import field_validator, model_validator

import envs
from trainer.config.base import Section, setting

BUDGETS = {"max_turns": 100, "max_actions_per_turn": 100, "max_actions": 1000}
"""The budgets of a rollout that belong to an environment, with the most that can be set."""


class EnvironmentConfig(Section):
    """Where the agent lives."""

    name: str = setting("Sokoban", "Name of a registered environment.")
    settings: dict[str, Any] = setting({}, "Settings of the environment; its own model says which exist.")
    instruction: str | None = setting(None, "Wording of the task in the prompt; empty takes the environment's own.")
    others: dict[str, float] = setting(
        {},
        "Further environments of the same run with their shares of the groups, as in FrozenLake=0.25, Bandit=0.25; the "
        "first environment has the rest.",
    )
    other_settings: dict[str, Any] = setting({}, "Settings of those environments, as in FrozenLake.size=5.")
    other_budgets: dict[str, int] = setting(
        {},
        "Budgets of those environments where the ones they recommend do not fit, as in FrozenLake.max_turns=3; also "
        "max_actions and max_actions_per_turn. The rollout's own budgets are those of the first environment.",
    )
    step_timeout: float = setting(
        10.0,
        "Longest time of a reset or a step in an environment that runs in a process of its own (WebShop, environments "
        "of other packages); one that takes longer ends its trajectory.",
        unit="seconds",
        gt=0,
        le=3600,
    )
    start_timeout: float = setting(
        120.0,
        "Longest time in which such an environment is made, its modules and data loaded.",
        unit="seconds",
        gt=0,
        le=86_400,
    )

    @field_validator("other_settings")
    @classmethod
    def settings_of_others(cls, value: dict[str, Any]) -> dict[str, Any]:
        for name, settings in by_environment(value, "other_settings").items():
            read = envs.settings_model(_registered(name)).model_validate(settings).model_dump(mode="json")
            value = value | {f"{name}.{key}": read[key] for key in settings}
        return value

    @field_validator("other_budgets")
    @classmethod
    def budgets_of_others(cls, value: dict[str, int]) -> dict[str, int]:
        for budgets in by_environment(value, "other_budgets").values():
            for name, number in budgets.items():
                if name not in BUDGETS:
                    raise ValueError(f"{name!r} is no budget: choose one of {', '.join(BUDGETS)}")
                if not 0 < number <= BUDGETS[name]:
                    raise ValueError(f"{name} must be between 1 and {BUDGETS[name]}, not {number}")
        return value

    @model_validator(mode="after")
    def known_and_valid(self) -> Self:
        envs.settings_model(_registered(self.name)).model_validate(self.settings)
        for name, share in self.others.items():
            if _registered(name) == self.name:
                raise ValueError(f"environment.others names {name} again, which is environment.name already")
            if not share > 0:
                raise ValueError(f"the share of {name} in environment.others must be above 0, not {share:g}")
        if sum(self.others.values()) >= 1:
            raise ValueError(f"environment.others leaves nothing to {self.name}: the shares must add up to less than 1")
        for field in ("other_settings", "other_budgets"):
            for name in by_environment(getattr(self, field), field):
                if name not in self.others:
                    raise ValueError(f"environment.{field} is about {name}, which is not in environment.others")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """All environments of the run, the first one first."""
        return (self.name, *self.others)


def by_environment(flat: Mapping[str, Any], field: str) -> dict[str, dict[str, Any]]:
    """{"FrozenLake.size": 5} as {"FrozenLake": {"size": 5}}. Raises ValueError for a name without a dot."""
    found: dict[str, dict[str, Any]] = {}
    for key, value in flat.items():
        name, dot, inner = key.rpartition(".")
        if not dot:
            raise ValueError(f"environment.{field} takes Environment.name=value, not {key!r}")
        found.setdefault(name, {})[inner] = value
    return found


def _registered(name: str) -> str:
    if name not in envs.names():
        raise ValueError(f"unknown environment {name!r}; choose one of {', '.join(envs.names())}")
    return name
