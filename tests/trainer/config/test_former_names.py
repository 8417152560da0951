"""Former names of settings: read everywhere, written nowhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel, ValidationError

from trainer.config import files
from trainer.config.former_names import former_names, section_of
from trainer.config.run import RunConfig, WarmupConfig
from trainer.imitation import warmup

FORMER_CONFIG: dict[str, Any] = {
    "kind": "train",
    "iterations": 12,
    "sinks": ["tensorboard"],
    "warmup": {"lesson_steps": 5},
    "engine": {
        "name": "vllm",
        "memory": 0.3,
        "cache_gib": 2.0,
        "rows": 8,
        "eager": True,
        "sleep": False,
        "patience": 9.0,
        "weights": "w",
    },
    "algorithm": {"lam": 0.9, "anchor_weight": 0.5, "filter": "std", "filter_keep": 0.25, "reuse": 2},
    "optimizer": {"update_batch": 4, "shared_prompts": False},
    "sft": {"held_out": 3, "depth": 7},
    "evaluation": {"samples": 2},
    "hosted": {
        "key_variable": "KEY",
        "longest_wait": 3.0,
        "without": ["seed"],
        "limit_name": "max_completion_tokens",
        "extra": {"top_k": 1},
        "price_in": 1.0,
        "price_out": 2.0,
    },
    "memory": {"guard": "warn", "rows": 6},
    "echo_trap": {
        "action": "rewind",
        "sensitivity": 0.4,
        "rewind_limit": 2,
        "rewind_changes": {"algorithm.filter_keep": "0.5", "optimizer.update_batch": "*2"},
    },
    "diagnostics": {"gradient_split_every": 4},
}
"""Every renamed setting under its former name, with another value than its default."""
FORMER_DIGESTS = ("b27d66cb02d68c23", "ef26dd9b2a9220d2", "87835bc86bd4e04a", "fc8681f30cc13ba3")
"""Computed before the renaming: of FORMER_CONFIG, the defaults, the preset sokoban-pocket, the warm-up."""
PRESET_THEN = ["iterations=48", "optimizer.lr_schedule=constant", "optimizer.lr_warmup=0", "optimizer.lr_min_ratio=0"]
"""What the preset sokoban-pocket has changed since."""

FORMER_MIX = {
    "others": {"FrozenLake": 0.25, "Bandit": 0.25},
    "other_settings": {"FrozenLake.size": 5, "FrozenLake.slippery": False},
    "other_budgets": {"FrozenLake.max_turns": 3, "Bandit.max_actions": 2},
}
"""Environment section under the former settings that `environment.mix` replaces."""
MIX = [
    {
        "name": "FrozenLake",
        "share": 0.25,
        "settings": {"size": 5, "slippery": False},
        "max_turns": 3,
        "max_actions_per_turn": None,
        "max_actions": None,
    },
    {
        "name": "Bandit",
        "share": 0.25,
        "settings": {},
        "max_turns": None,
        "max_actions_per_turn": None,
        "max_actions": 2,
    },
]
FORMER_MIX_DIGEST = "245f84150a8ceff1"
"""Computed before the replacement, of FORMER_MIX with a Sokoban of size 7."""


def renamed(model: type[BaseModel] = RunConfig, prefix: str = "") -> Iterator[tuple[str, str]]:
    """(former, current) dotted names of all renamed settings."""
    for former, current in former_names(model).items():
        yield prefix + former, prefix + current
    for name in model.model_fields:
        if section := section_of(model, name):
            yield from renamed(section, f"{prefix}{name}.")


RENAMED = list(renamed())


def value_of(former: str) -> Any:
    value: Any = FORMER_CONFIG
    for part in former.split("."):
        value = value[part]
    return value


def nested(name: str, value: Any) -> dict[str, Any]:
    section, dot, field = name.rpartition(".")
    return {section: {field: value}} if dot else {field: value}


def partial_config(former: str) -> dict[str, Any]:
    """Other settings required for the setting to be valid."""
    return {"algorithm": {"group_filter": "std"}} if former == "algorithm.filter_keep" else {}


def merged(*parts: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for part in parts:
        for key, value in part.items():
            result[key] = result.get(key, {}) | value if isinstance(value, dict) else value
    return result


def test_all_settings_of_the_table_are_renamed() -> None:
    assert len(RENAMED) == 31
    assert all(former.rpartition(".")[0] == current.rpartition(".")[0] for former, current in RENAMED)


@pytest.mark.parametrize(("former", "current"), RENAMED)
def test_a_former_name_loads_as_the_current_one(former: str, current: str, tmp_path: Path) -> None:
    value, base = value_of(former), partial_config(former)
    expected = RunConfig.model_validate(merged(base, nested(current, value)))
    assert expected != RunConfig.model_validate(base)
    assert RunConfig.model_validate(merged(base, nested(former, value))) == expected
    file = tmp_path / "run.yaml"
    file.write_text(yaml.safe_dump(merged(base, nested(former, value))))
    assert files.load_yaml(file) == expected
    assert files.with_overrides(RunConfig.model_validate(base), [f"{former}={json.dumps(value)}"]) == expected
    assert files.current_settings(nested(former, value)) == nested(current, value)


@pytest.mark.parametrize(("former", "current"), RENAMED)
def test_both_names_at_once_are_an_error_naming_the_one_to_keep(former: str, current: str) -> None:
    value = value_of(former)
    message = f"{former.rpartition('.')[2]} is the former name of {current.rpartition('.')[2]}: keep "
    with pytest.raises(ValidationError) as refusal:
        RunConfig.model_validate(merged(nested(former, value), nested(current, value)))
    assert message in files.validation_errors(refusal.value)[0][1]
    with pytest.raises(ValueError, match=f"{former} is the former name of {current}: keep {current}"):
        files.with_overrides(RunConfig(), [f"{former}={json.dumps(value)}", f"{current}={json.dumps(value)}"])


def test_an_override_may_repeat_a_name() -> None:
    assert files.with_overrides(RunConfig(), ["seed=1", "seed=2"]).seed == 2


def test_a_stored_configuration_with_both_names_keeps_the_current_one() -> None:
    stored = {"algorithm": {"lam": 0.1, "gae_lambda": 0.2}, "unknown": 1}
    assert files.current_settings(stored) == {"algorithm": {"gae_lambda": 0.2}, "unknown": 1}


def test_only_current_names_are_written() -> None:
    dump = RunConfig.model_validate(FORMER_CONFIG).model_dump(mode="json")
    for former, current in RENAMED:
        section, _, field = former.rpartition(".")
        fields = dump[section] if section else dump
        assert field not in fields
        assert current.rpartition(".")[2] in fields
    changes = {"algorithm.group_filter_keep": "0.5", "optimizer.mini_batch_trajectories": "*2"}
    assert dump["echo_trap"]["rewind_changes"] == changes
    assert files.current_settings(FORMER_CONFIG)["echo_trap"]["rewind_changes"] == changes


def test_rewind_changes_under_both_names_are_an_error() -> None:
    changes = {"algorithm.lam": "0.9", "algorithm.gae_lambda": "0.8"}
    with pytest.raises(ValidationError, match=r"algorithm\.lam is the former name of algorithm\.gae_lambda: keep"):
        RunConfig.model_validate({"echo_trap": {"rewind_changes": changes}})


def test_an_error_in_a_former_name_is_reported_under_the_current_one() -> None:
    with pytest.raises(ValidationError) as refusal:
        RunConfig.model_validate({"algorithm": {"lam": 2}})
    assert files.validation_errors(refusal.value) == [("algorithm.gae_lambda", "must be at most 1.0")]


def test_digests_are_those_from_before_the_renaming() -> None:
    config = RunConfig.model_validate(FORMER_CONFIG)
    assert config.digest() == RunConfig.model_validate(config.model_dump()).digest()
    preset = files.with_overrides(files.load_preset("sokoban-pocket"), PRESET_THEN)
    digests = (config.digest(), RunConfig().digest(), preset.digest())
    assert (*digests, warmup.digest(WarmupConfig(single_state_steps=5))) == FORMER_DIGESTS


def test_former_settings_of_a_mixture_load_as_its_list(tmp_path: Path) -> None:
    expected = RunConfig.model_validate({"environment": {"mix": MIX}})
    assert expected.model_dump(mode="json")["environment"]["mix"] == MIX
    assert RunConfig.model_validate({"environment": FORMER_MIX}) == expected
    file = tmp_path / "run.yaml"
    file.write_text(yaml.safe_dump({"environment": FORMER_MIX}, sort_keys=False))
    assert files.load_yaml(file) == expected
    assert files.current_settings({"environment": FORMER_MIX}) == {"environment": {"mix": MIX}}
    assert files.current_settings({"environment": FORMER_MIX | {"mix": []}}) == {"environment": {"mix": []}}


def test_former_settings_of_a_mixture_can_be_set_on_the_command_line() -> None:
    pairs = [f"environment.{name}={json.dumps(value)}" for name, value in FORMER_MIX.items()]
    mixed = files.with_overrides(RunConfig(), pairs)
    assert mixed == RunConfig.model_validate({"environment": {"mix": MIX}})
    larger = files.with_overrides(mixed, ["environment.other_settings={FrozenLake.size: 6}"])
    assert [entry.settings for entry in larger.environment.mix] == [{"size": 6}, {}]
    assert [entry.max_turns for entry in larger.environment.mix] == [3, None]
    fewer = files.with_overrides(mixed, ["environment.others.FrozenLake=0.5"])
    assert [entry.share for entry in fewer.environment.mix] == [0.5, 0.25]


def test_a_mixture_is_set_on_the_command_line_as_a_list_in_yaml_or_json() -> None:
    expected = RunConfig.model_validate({"environment": {"mix": [{"name": "Bandit", "share": 0.5}]}})
    for text in ("[{name: Bandit, share: 0.5}]", '[{"name": "Bandit", "share": 0.5}]'):
        assert files.with_overrides(RunConfig(), [f"environment.mix={text}"]) == expected


@pytest.mark.parametrize("name", FORMER_MIX)
def test_a_mixture_and_one_of_its_former_settings_at_once_are_an_error(name: str) -> None:
    with pytest.raises(ValidationError, match=f"{name} is a former part of mix: keep mix and remove {name}"):
        RunConfig.model_validate({"environment": {"mix": [], name: FORMER_MIX[name]}})
    message = rf"environment\.{name} is a former part of environment\.mix: keep environment\.mix"
    with pytest.raises(ValueError, match=message):
        files.with_overrides(RunConfig(), [f"environment.{name}={{}}", "environment.mix=[]"])


@pytest.mark.parametrize(
    ("former", "message"),
    [
        ({"others": {"Bandit": 0.5}, "other_settings": {"FrozenLake.size": 5}}, "not in environment.others"),
        ({"others": {"FrozenLake": 0.5}, "other_settings": {"size": 5}}, "expects Environment.name=value"),
        ({"others": {"FrozenLake": 0.5}, "other_budgets": {"FrozenLake.turns": 5}}, "'turns' is not a budget"),
        ({"others": {"FrozenLake": 0.5}, "other_budgets": {"Bandit.max_turns": 2}}, "not in environment.others"),
        ({"others": ["FrozenLake"]}, "must be a mapping, not"),
        ({"others": {"FrozenLake": 0.5}, "other_settings": {"FrozenLake.size": 99}}, "must be at most"),
        ({"others": {"FrozenLake": 0.5}, "other_settings": {"FrozenLake.sise": 5}}, "there is no setting of this name"),
        ({"others": {"FrozenLake": 0.5}, "other_budgets": {"FrozenLake.max_turns": 0}}, "greater than 0"),
        ({"others": {"Chess": 0.5}}, "unknown environment 'Chess'"),
        ({"others": {"Bandit": 0.6, "FrozenLake": 0.4}}, "leaves no share for Sokoban"),
    ],
)
def test_invalid_former_settings_of_a_mixture_are_refused_with_the_reason(former: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        RunConfig.model_validate({"environment": former})


def test_stored_former_settings_that_do_not_fit_together_stay_as_they_are() -> None:
    stored = {"environment": {"other_settings": {"FrozenLake.size": 5}}}
    assert files.current_settings(stored) == stored


def test_the_digest_of_a_mixture_is_that_from_before_the_list() -> None:
    former = RunConfig.model_validate({"environment": FORMER_MIX | {"settings": {"size": 7}}})
    current = RunConfig.model_validate({"environment": {"settings": {"size": 7}, "mix": MIX}})
    assert former.digest() == current.digest() == FORMER_MIX_DIGEST


def test_entries_of_a_mixture_are_dumped_in_the_order_of_their_fields() -> None:
    stored = {"environment": {"mix": [dict(reversed(MIX[0].items()))]}}
    (entry,) = files.ordered_dump(stored)["environment"]["mix"]
    assert list(entry) == list(MIX[0])
