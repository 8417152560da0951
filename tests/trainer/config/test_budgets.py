"""Budgets of an episode: the environment's own where the settings leave them open."""

import pytest
import yaml

from tests.envs.playable_names import PLAYABLE
from trainer.config.environment import BUDGETS, recommended_budgets
from trainer.config.files import load_preset, load_yaml, preset_names, with_overrides
from trainer.config.run import EnvironmentConfig, RolloutConfig, RunConfig


def budgets(config):
    return {name: getattr(config.rollout, name) for name in BUDGETS}


@pytest.mark.parametrize("name", PLAYABLE)
def test_open_budgets_are_those_that_the_environment_recommends(name):
    assert budgets(RunConfig.model_validate({"environment": {"name": name}})) == recommended_budgets(name)
    assert budgets(RunConfig(environment=EnvironmentConfig(name=name))) == recommended_budgets(name)


def test_an_adapter_without_a_default_variant_needs_an_id():
    for section in ({"name": "OpenEnv"}, {"mix": [{"name": "OpenEnv", "share": 0.5}]}):
        with pytest.raises(ValueError, match="OpenEnv has no default variant: set id in its settings to the address"):
            EnvironmentConfig.model_validate(section)
    chosen = EnvironmentConfig(name="OpenEnv", settings={"id": "http://localhost:8000"})
    assert chosen.labels == {"OpenEnv": "OpenEnv http://localhost:8000"}


@pytest.mark.parametrize("left_open", [None, ""])
def test_an_empty_budget_is_open_and_the_others_are_kept(left_open):
    data = {"environment": {"name": "WebShop"}, "rollout": {"max_turns": left_open, "max_actions": 4}}
    assert budgets(RunConfig.model_validate(data)) == {"max_turns": 9, "max_actions_per_turn": 1, "max_actions": 4}


def test_a_rollout_section_of_its_own_is_complete():
    config = RunConfig(environment=EnvironmentConfig(name="Bandit"), rollout=RolloutConfig(groups=2))
    assert budgets(config) == budgets(RunConfig())


def test_a_stored_run_keeps_budgets_that_are_not_its_environments(tmp_path):
    """Every version has stored complete settings: they mean what they meant."""
    stored = RunConfig(environment=EnvironmentConfig(name="Bandit"), rollout=RolloutConfig())
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(stored.model_dump(mode="json")))
    assert budgets(load_yaml(file)) == {"max_turns": 5, "max_actions_per_turn": 5, "max_actions": 10}
    assert load_yaml(file).digest() == stored.digest()


def test_digests_of_presets_and_defaults_are_as_before_budgets_could_be_open():
    assert RunConfig().digest() == RunConfig(rollout=RolloutConfig()).digest()
    for name in preset_names():
        data = load_preset(name).model_dump()
        assert RunConfig.model_validate(data).digest() == load_preset(name).digest()


def test_another_environment_on_the_command_line_brings_its_own_budgets():
    preset = load_preset("sokoban-starpo_s-pocket")
    changed = with_overrides(preset, ["environment.name=WebShop"])
    assert budgets(changed) == recommended_budgets("WebShop")
    fewer = with_overrides(preset, ["environment.name=WebShop", "rollout.max_turns=3"])
    assert budgets(fewer) == recommended_budgets("WebShop") | {"max_turns": 3}
    section = with_overrides(preset, ["environment.name=WebShop", "rollout={max_turns: 3}"])
    assert budgets(section) == recommended_budgets("WebShop") | {"max_turns": 3}


@pytest.mark.parametrize("preset", preset_names())
@pytest.mark.parametrize("name", ["Sudoku", "Sokoban"])
def test_another_environment_fits_every_preset(preset, name):
    before = load_preset(preset)
    changed = with_overrides(before, [f"environment.name={name}"])
    assert changed.environment.settings.keys() <= before.environment.settings.keys()
    kept = before.rollout.format_line if name == "Sokoban" else "auto"
    assert changed.rollout.format_line == kept


def test_settings_that_the_new_environment_lacks_are_refused_if_they_were_chosen():
    preset = load_preset("countdown-starpo_s-pocket")
    assert preset.environment.settings
    assert with_overrides(preset, ["environment.name=Sudoku"]).environment.settings == {}
    with pytest.raises(ValueError, match="largest"):
        with_overrides(preset, ["environment.name=Sudoku", "environment.settings.largest=9"])


def test_the_same_environment_on_the_command_line_keeps_the_budgets_of_the_preset():
    preset = load_preset("frozen_lake-starpo_s-pocket")
    assert budgets(with_overrides(preset, ["environment.name=FrozenLake"])) == budgets(preset)
    assert budgets(with_overrides(preset, ["iterations=3"])) == budgets(preset)
    assert budgets(preset)["max_actions_per_turn"] == 1


def test_budgets_follow_the_settings_of_the_environment_unless_they_were_chosen():
    tools = with_overrides(RunConfig(), ["environment.name=ToolCalculator"])
    more = with_overrides(tools, ["environment.settings.max_calls=7"])
    assert budgets(more) == {"max_turns": 8, "max_actions_per_turn": 1, "max_actions": 8}
    fewer = with_overrides(tools, ["environment.settings.max_calls=7", "rollout.max_turns=3"])
    assert budgets(fewer) == budgets(more) | {"max_turns": 3}
    chosen = with_overrides(fewer, ["environment.settings.max_calls=2"])
    assert budgets(chosen) == {"max_turns": 3, "max_actions_per_turn": 1, "max_actions": 3}
    taxi = with_overrides(RunConfig(), ["environment.name=Gymnasium"])
    assert budgets(with_overrides(taxi, ["environment.settings.id=Taxi-v4"]))["max_actions"] == 200


@pytest.mark.parametrize(("name", "changes"), [("Game2048", {"target": 2048}), ("Sudoku", {"size": 9, "blanks": 54})])
def test_recommended_budgets_are_allowed_ones(name, changes):
    config = RunConfig.model_validate({"environment": {"name": name, "settings": changes}})
    assert all(0 < value <= BUDGETS[budget] for budget, value in budgets(config).items())
