"""Environment section of RunConfig: one environment, or a mix with shares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import ValidationError, ValidationInfo, field_validator, model_validator

import envs
from envs.text_roles import TextRole
from trainer.config.base import Section, error_text, setting

BUDGETS = {"max_turns": 100, "max_actions_per_turn": 100, "max_actions": 1000}
"""Budgets of an episode that belong to its environment, with their upper limits."""
DEFAULT_ENVIRONMENT = "Sokoban"


class MixedEnvironment(Section):
    """A further environment of a run, with its share of the groups."""

    name: Annotated[str, TextRole.PLAIN] = setting(..., "Name of a registered environment.")
    share: float = setting(..., "Share of the groups; the first environment gets what the others leave.", gt=0, lt=1)
    settings: Annotated[dict[str, Any], TextRole.ENVIRONMENT] = setting(
        {}, "Settings of the environment, as listed for each of them."
    )
    max_turns: int | None = setting(
        None,
        "Maximum turns of a trajectory; empty = the environment's recommended budget, as for the other budgets.",
        unit="turns",
        gt=0,
        le=BUDGETS["max_turns"],
    )
    max_actions_per_turn: int | None = setting(
        None, "Maximum actions executed per turn.", unit="actions", gt=0, le=BUDGETS["max_actions_per_turn"]
    )
    max_actions: int | None = setting(
        None, "Maximum actions of a trajectory.", unit="actions", gt=0, le=BUDGETS["max_actions"]
    )

    @field_validator("name")
    @classmethod
    def check_name(cls, value: str) -> str:
        """Require a registered environment."""
        return _registered(value)

    @field_validator("settings")
    @classmethod
    def check_settings(cls, value: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        """Validate the given settings with the environment's model."""
        name = info.data.get("name")
        if name is None:  # reported already
            return value
        try:
            return validated_settings(name, value)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None

    @property
    def budgets(self) -> dict[str, int]:
        """The environment's recommended budgets, overridden by the ones that are set."""
        values = {budget: getattr(self, budget) for budget in BUDGETS}
        recommended = recommended_budgets(self.name, self.settings)
        return recommended | {name: value for name, value in values.items() if value is not None}


def check_mix(mix: Sequence[MixedEnvironment], setting_name: str, first: str) -> None:
    """Raise ValueError unless each environment is complete and listed once, and the shares leave one for `first`."""
    for entry in mix:
        if envs.needs_variant(entry.name) and not entry.settings.get("id"):
            raise ValueError(envs.no_default_variant(entry.name))
    for name, times in Counter(entry.name for entry in mix).items():
        if times > 1:
            raise ValueError(f"{setting_name} lists {name} twice")
    if sum(entry.share for entry in mix) >= 1:
        raise ValueError(f"{setting_name} leaves no share for {first}: the shares must add up to less than 1")


def recommended_budgets(name: str, settings: Mapping[str, Any] | None = None) -> dict[str, int]:
    """Return the budgets of an episode that a registered environment recommends with these settings.

    Only adapters, whose settings choose the variant, recommend other budgets than with their default settings.

    Raises:
        ValueError: unknown name or invalid settings.
    """
    spec = envs.spec(name, settings)
    return {budget: getattr(spec, budget) for budget in BUDGETS}


def validated_settings(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given settings, validated by the environment's model. Raises ValueError with the first error."""
    try:
        validated = envs.settings_model(name).model_validate(settings).model_dump(mode="json")
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"{where + ': ' if where else ''}{error_text(first)}") from None
    return {key: validated[key] for key in settings}


class EnvironmentConfig(Section):
    """Environment of the agent, or a mixture of several."""

    name: Annotated[str, TextRole.PLAIN] = setting(DEFAULT_ENVIRONMENT, "Name of a registered environment.")
    settings: Annotated[dict[str, Any], TextRole.ENVIRONMENT] = setting(
        {}, "Settings of the environment, as listed for each of them."
    )
    instruction: Annotated[str | None, TextRole.PLAIN] = setting(
        None, "Wording of the task in the prompt; empty = the environment's."
    )
    cells: Literal["auto", "compact", "spaced", "located"] = setting(
        "auto",
        "Grids in the prompt (Sokoban, FrozenLake, Rubik's cube and their variants), compact: cells side by side, of "
        "which tokenizers merge several into one token; spaced: with a space between cells, so that each is a token; "
        "located: as spaced, with a line that lists the things on the grid by row and column, as in P 1,2. G 4,4. "
        "auto: spaced, except for the pocket policy, whose tokenizer merges none.",
        source="RAGEN code: spaced in later versions, and located as observation_format grid_coord",
        added=True,
    )
    mix: list[MixedEnvironment] = setting(
        [],
        "Further environments of the run, one entry each with name, share of the groups, and optionally settings and "
        "budgets, as in - {name: FrozenLake, share: 0.25, settings: {size: 5}, max_turns: 3}. The first environment "
        "gets the remaining share; the budgets of `rollout` are its own.",
    )

    @field_validator("name")
    @classmethod
    def check_name(cls, value: str) -> str:
        """Require a registered environment."""
        return _registered(value)

    @field_validator("settings")
    @classmethod
    def check_settings(cls, value: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        """Require settings that the environment's model accepts; they are stored as given."""
        if "name" in info.data:
            envs.settings_model(info.data["name"]).model_validate(value)
        return value

    @model_validator(mode="after")
    def check_environments(self) -> Self:
        """Require distinct environments, and shares of the additional ones that sum to less than 1."""
        if self.mixed(self.name):
            raise ValueError(f"environment.mix lists {self.name}, which is environment.name already")
        if envs.needs_variant(self.name) and not self.settings.get("id"):
            raise ValueError(envs.no_default_variant(self.name))
        check_mix(self.mix, "environment.mix", self.name)
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """All environments of the run; the main one comes first."""
        return (self.name, *(entry.name for entry in self.mix))

    @property
    def labels(self) -> dict[str, str]:
        """Display names of all environments by name; an adapter's includes the variant."""
        entries: list[EnvironmentConfig | MixedEnvironment] = [self, *self.mix]
        return {entry.name: envs.label(entry.name, entry.settings) for entry in entries}

    def mixed(self, name: str) -> MixedEnvironment | None:
        """Return the additional environment with that name, if the run has it."""
        return next((entry for entry in self.mix if entry.name == name), None)


def _registered(name: str) -> str:
    if name not in envs.names():
        raise ValueError(envs.unknown(name))
    return name
