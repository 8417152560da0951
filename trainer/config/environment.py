"""Environment section of RunConfig: one environment, or several with their shares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import ValidationError, ValidationInfo, field_validator, model_validator

import envs
from envs.text_roles import TextRole
from trainer.config.base import Section, error_text, setting
from trainer.config.former_names import FormerParts

BUDGETS = {"max_turns": 100, "max_actions_per_turn": 100, "max_actions": 1000}
"""Budgets of an episode that belong to its environment, with their upper limits."""
DEFAULT_ENVIRONMENT = "Sokoban"
DEFAULTS_VERSION = 2
FORMER_DEFAULTS: Mapping[int, Mapping[str, Mapping[str, Any]]] = {1: {"LargeSokoban": {"typical_length": None}}}
"""Version of the environments' default settings → environment → the defaults that were others then."""


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
        """A registered environment."""
        return _registered(value)

    @field_validator("settings")
    @classmethod
    def check_settings(cls, value: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        """The settings that are present, as the environment's model validates them."""
        name = info.data.get("name")
        if name is None:  # reported already
            return value
        try:
            return validated_settings(name, value)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None

    @property
    def budgets(self) -> dict[str, int]:
        """The environment's recommended budgets, overridden by those that are set."""
        values = {budget: getattr(self, budget) for budget in BUDGETS}
        own = recommended_budgets(self.name, self.settings)
        return own | {name: value for name, value in values.items() if value is not None}


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
    """The budgets of an episode that a registered environment recommends with these settings.

    Only adapters, in which the settings choose the variant, recommend others than with their default settings.

    Raises:
        ValueError: unknown name or invalid settings.
    """
    spec = envs.spec(name, settings)
    return {budget: getattr(spec, budget) for budget in BUDGETS}


def validated_settings(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that are present, validated by the environment's model. Raises ValueError with the first error."""
    try:
        validated = envs.settings_model(name).model_validate(settings).model_dump(mode="json")
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"{where + ': ' if where else ''}{error_text(first)}") from None
    return {key: validated[key] for key in settings}


def _by_environment(flat: Any, field: str) -> dict[str, dict[str, Any]]:
    """{"FrozenLake.size": 5} as {"FrozenLake": {"size": 5}}. Raises ValueError for a name without a dot."""
    nested: dict[str, dict[str, Any]] = {}
    for key, value in _mapping(flat, field).items():
        name, dot, inner = str(key).rpartition(".")
        if not dot:
            raise ValueError(f"environment.{field} expects Environment.name=value, not {key!r}")
        nested.setdefault(name, {})[inner] = value
    return nested


def _mapping(value: Any, field: str) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"environment.{field} must be a mapping, not {value!r}")
    return value


def _join(parts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Entries of `mix` from the former settings: shares, settings and budgets by environment."""
    shares = _mapping(parts.get("others", {}), "others")
    settings = _by_environment(parts.get("other_settings", {}), "other_settings")
    budgets = _by_environment(parts.get("other_budgets", {}), "other_budgets")
    for field, nested in (("other_settings", settings), ("other_budgets", budgets)):
        for name in nested:
            if name not in shares:
                raise ValueError(f"environment.{field} names {name}, which is not in environment.others")
    for values in budgets.values():
        for name in values:
            if name not in BUDGETS:
                raise ValueError(f"{name!r} is not a budget: choose one of {', '.join(BUDGETS)}")
    return [
        {"name": name, "share": share, "settings": settings.get(name, {})}
        | {budget: budgets.get(name, {}).get(budget) for budget in BUDGETS}
        for name, share in shares.items()
    ]


def _split(mix: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The former settings that entries of `mix` stand for."""
    return {
        "others": {entry["name"]: entry["share"] for entry in mix},
        "other_settings": {
            f"{entry['name']}.{key}": value for entry in mix for key, value in entry["settings"].items()
        },
        "other_budgets": {
            f"{entry['name']}.{budget}": entry[budget]
            for entry in mix
            for budget in BUDGETS
            if entry[budget] is not None
        },
    }


class EnvironmentConfig(Section):
    """Environment of the agent, or a mixture of several."""

    FORMER_PARTS: ClassVar[Mapping[str, FormerParts]] = {
        "mix": FormerParts(("others", "other_settings", "other_budgets"), _join, _split)
    }

    name: Annotated[str, TextRole.PLAIN] = setting(DEFAULT_ENVIRONMENT, "Name of a registered environment.")
    settings: Annotated[dict[str, Any], TextRole.ENVIRONMENT] = setting(
        {}, "Settings of the environment, as listed for each of them."
    )
    instruction: Annotated[str | None, TextRole.PLAIN] = setting(
        None, "Wording of the task in the prompt; empty = as `wording` says."
    )
    wording: Literal["own", "paper"] = setting(
        "own",
        "Wording of the task where `instruction` is empty, own: the environment's; paper: with the content of the "
        "paper's prompts (Bandit, Sokoban, FrozenLake and their variants; others keep their own).",
        source="paper: appendix E",
        added=True,
    )
    cells: Literal["auto", "compact", "spaced"] = setting(
        "auto",
        "Grids in the prompt (Sokoban, FrozenLake, Rubik's cube and their variants), compact: cells side by side, of "
        "which tokenizers merge several into one token; spaced: with a space between cells, so that each is a token. "
        "auto: spaced, except for the pocket policy, whose tokenizer merges none.",
        source="RAGEN code: spaced in later versions",
        added=True,
    )
    defaults_version: int = setting(
        DEFAULTS_VERSION,
        "Version of the environments' default settings. Version 1, of runs recorded before there were two: "
        "LargeSokoban with shorter solutions.",
        ge=1,
        le=DEFAULTS_VERSION,
    )
    mix: list[MixedEnvironment] = setting(
        [],
        "Further environments of the run, one entry each with name, share of the groups, and optionally settings and "
        "budgets, as in - {name: FrozenLake, share: 0.25, settings: {size: 5}, max_turns: 3}. The first environment "
        "gets the remaining share; the budgets of `rollout` are its own.",
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

    @field_validator("name")
    @classmethod
    def check_name(cls, value: str) -> str:
        """A registered environment."""
        return _registered(value)

    @field_validator("settings")
    @classmethod
    def check_settings(cls, value: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        """Settings that the environment's model accepts; stored as they were given."""
        if "name" in info.data:
            envs.settings_model(info.data["name"]).model_validate(value)
        return value

    @model_validator(mode="before")
    @classmethod
    def recognize_former_defaults(cls, data: Any) -> Any:
        """See `with_defaults_version`."""
        return with_defaults_version(data) if isinstance(data, Mapping) else data

    @model_validator(mode="after")
    def check_environments(self) -> Self:
        """Each environment only once, with shares of the further ones below 1 in all."""
        if self.mixed(self.name):
            raise ValueError(f"environment.mix lists {self.name}, which is environment.name already")
        if envs.needs_variant(self.name) and not self.settings.get("id"):
            raise ValueError(envs.no_default_variant(self.name))
        if self.wording == "paper" and not any(envs.spec(name).paper_instruction for name in self.names):
            raise ValueError(
                f"environment.wording: the paper has no prompt for {self.name}: choose 'own', or set "
                "environment.instruction"
            )
        check_mix(self.mix, "environment.mix", self.name)
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """All environments of the run; the main one comes first."""
        return (self.name, *(entry.name for entry in self.mix))

    @property
    def labels(self) -> dict[str, str]:
        """Display names of all environments, by name: of an adapter with the variant that its settings choose."""
        own: list[EnvironmentConfig | MixedEnvironment] = [self, *self.mix]
        return {each.name: envs.label(each.name, each.settings) for each in own}

    def effective_settings(self) -> dict[str, Any]:
        """The settings of the environment, with defaults of the recorded version."""
        return self.completed(self.name, self.settings)

    def completed(self, name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Settings of an environment, and those of its defaults of the recorded version that are others today."""
        return {**FORMER_DEFAULTS.get(self.defaults_version, {}).get(name, {}), **settings}

    def mixed(self, name: str) -> MixedEnvironment | None:
        """The further environment of that name, if the run has it."""
        return next((entry for entry in self.mix if entry.name == name), None)


_RECORDED = {"name", "settings", "instruction", "step_timeout", "start_timeout"}
"""Settings that every complete configuration has had since before `defaults_version`."""


def with_defaults_version(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Settings of this section with the version of the environments' defaults, if they are recorded ones from before
    there were two: those are complete but for the version."""
    return {**data, "defaults_version": 1} if "defaults_version" not in data and set(data) >= _RECORDED else data


def _registered(name: str) -> str:
    if name not in envs.names():
        raise ValueError(envs.unknown(name))
    return name
