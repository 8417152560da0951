"""Descriptions by name and settings: the variants of an adapter differ, our own environments do not."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from pydantic import Field, ValidationError

import envs
from envs import registry
from envs.adapters.packages import ADAPTERS, no_such_variant
from envs.base import EnvSettings, EnvSpec, TextEnv

OTHER_SETTINGS: dict[str, dict[str, Any]] = {
    "Sokoban": {"size": 8, "boxes": 2},
    "FrozenLake": {"size": 6, "slippery": False},
    "Bandit": {"swap_names": True} if "swap_names" in envs.settings_model("Bandit").model_fields else {},
    "MetaMathQA": {"max_tries": 2},
    "Countdown": {},
}


@pytest.mark.parametrize("name", registry.BUILT_IN)
def test_the_description_of_an_own_environment_belongs_to_its_name(name: str) -> None:
    assert envs.spec(name, OTHER_SETTINGS.get(name, {})) == envs.spec(name) == envs.make(name).env_spec
    assert envs.variants(name) == {}
    assert envs.label(name, {"id": "anything"}) == name


def test_each_variant_of_an_adapter_has_its_own_description() -> None:
    taxi = next(variant for variant in envs.variants("Gymnasium") if variant.startswith("Taxi-"))
    lake, cab = envs.spec("Gymnasium"), envs.spec("Gymnasium", {"id": taxi})
    assert (lake.name, cab.name) == ("Gymnasium", "Gymnasium")
    assert lake.actions != cab.actions
    assert (lake.max_actions, cab.max_actions) == (100, 200)
    assert envs.make("Gymnasium", {"id": taxi}).env_spec == cab
    assert envs.label("Gymnasium", {"id": taxi}) == f"Gymnasium {taxi}"
    assert envs.label("Gymnasium") == "Gymnasium"


def test_a_third_party_environment_may_describe_itself_by_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    class LengthSettings(EnvSettings):
        turns: int = Field(3, ge=1)

    class Long(TextEnv):
        Settings: ClassVar[type[EnvSettings]] = LengthSettings

        @classmethod
        def describe(cls, settings: EnvSettings) -> EnvSpec:
            assert isinstance(settings, LengthSettings)
            return envs.spec("Countdown").model_copy(update={"name": "Long", "max_turns": settings.turns})

    monkeypatch.setattr(registry, "_plugins", lambda: {"Long": Long})
    assert envs.spec("Long").max_turns == 3
    assert envs.spec("Long", {"turns": 9}).max_turns == 9
    with pytest.raises(ValidationError, match="turns"):
        envs.spec("Long", {"turns": 0})


@pytest.mark.parametrize("name", ADAPTERS)
def test_an_adapter_without_its_package_names_what_to_install(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "is_installed", lambda _: False)
    package = ADAPTERS[name]
    assert name not in envs.names()
    sentence = envs.missing_adapters()[name]
    assert f"pip install {package.requirement} " in sentence
    assert f"pip install '.[{package.extra}]'" in sentence
    for refused in (envs.make, envs.spec, envs.settings_model):
        with pytest.raises(ValueError, match="which is not installed: pip install"):
            refused(name)
    default = registry.adapter_settings(name).model_fields["id"].default
    assert bool(default) is not envs.needs_variant(name)
    assert default or envs.no_default_variant(name).endswith(f"set id in its settings to {package.choice}")


def test_unknown_variants_are_refused_with_near_matches() -> None:
    ids = ["Taxi-v4", "CliffWalking-v1", "sudoku", "mini_sudoku"]
    assert "did you mean Taxi-v4?" in no_such_variant("Gymnasium", "taxi", ids)
    assert "did you mean sudoku or mini_sudoku?" in no_such_variant("ReasoningGym", "sudoko", ids)
    assert "did you mean" not in no_such_variant("Gymnasium", "zzz", ids)
    assert "`python -m trainer environments Gymnasium` lists all 4" in no_such_variant("Gymnasium", "zzz", ids)
