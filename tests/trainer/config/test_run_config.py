"""RunConfig: validation messages, digests and titles."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from trainer.algorithms.estimators import ESTIMATORS
from trainer.config.files import load_preset, load_yaml, preset_names, validation_errors
from trainer.config.run import RunConfig


def problems(data):
    with pytest.raises(ValidationError) as refusal:
        RunConfig.model_validate(data)
    return validation_errors(refusal.value)


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_survives_yaml_unchanged(name, tmp_path):
    config = load_preset(name)
    file = tmp_path / "run.yaml"
    file.write_text(yaml.safe_dump(config.model_dump(mode="json")))
    assert load_yaml(file) == config
    assert load_yaml(file).digest() == config.digest()


def test_every_setting_has_a_help_text():
    for section in RunConfig.model_fields.values():
        fields = getattr(section.annotation, "model_fields", None) or {"": section}
        assert all(field.description for field in fields.values())


@pytest.mark.parametrize(
    "data, field, message",
    [
        ({"iterations": "x"}, "iterations", "must be a whole number, not 'x'"),
        ({"iterations": 0}, "iterations", "must be greater than 0"),
        ({"seed": -1}, "seed", "must be at least 0"),
        ({"rollout": {"temperature": 11}}, "rollout.temperature", "must be at most 10"),
        ({"rollout": {"think": "perhaps"}}, "rollout.think", "must be on or off, not 'perhaps'"),
        ({"optimizer": {"policy_lr": "fast"}}, "optimizer.policy_lr", "must be a number, not 'fast'"),
        ({"optimizer": {"beta1": 1}}, "optimizer.beta1", "must be less than 1"),
        (
            {"algorithm": {"group_filter": "best"}},
            "algorithm.group_filter",
            "'std_rev', 'range', 'snr', 'min_p' or 'soft'",
        ),
        ({"warp": 9}, "warp", "there is no setting of this name"),
        ({"name": "x" * 121}, "name", "must be at most 120 characters"),
        ({"algorithm": {"group_filter_keep": 0.5}}, "", "filter_keep is below 1 but algorithm.group_filter is 'none'"),
        ({"rollout": {"group_size": 1}, "algorithm": {"group_filter": "std"}}, "", "needs groups of at least 2"),
    ],
)
def test_a_problem_is_described_with_its_field(data, field, message):
    ((where, sentence),) = problems(data)
    assert where == field
    assert message in sentence


def test_all_problems_are_reported_at_once():
    assert len(problems({"iterations": 0, "seed": -1, "rollout": {"groups": 0}})) == 3


def test_environment_settings_are_validated_by_the_environment():
    assert RunConfig.model_validate({"environment": {"settings": {"boxes": 2}}}).environment.settings == {"boxes": 2}
    ((field, sentence),) = problems({"environment": {"settings": {"boxes": 99}}})
    assert "boxes" in field
    assert sentence == "must be at most 4"


def test_the_digest_is_the_same_in_every_process_and_differs_with_every_setting():
    config = RunConfig(seed=5)
    code = "from trainer.config.run import RunConfig; print(RunConfig(seed=5).digest())"
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3]
    )
    assert process.stdout.strip() == config.digest() != RunConfig(seed=6).digest()


def test_a_run_without_a_name_gets_a_descriptive_title():
    assert RunConfig().title() == "Sokoban · StarPO · pocket policy, seed 0"
    settings = {"policy": {"model": "Qwen/Qwen2.5-0.5B-Instruct"}, "algorithm": {"group_filter": "std"}, "seed": 3}
    assert RunConfig.model_validate(settings).title() == "Sokoban · StarPO-S · Qwen2.5-0.5B-Instruct, seed 3"
    assert RunConfig(name="  my run ").title() == "my run"


def test_turn_level_credit_needs_rewards_at_turns():
    ((_, sentence),) = problems({"algorithm": {"estimator": "gigpo", "reward_position": "outcome"}})
    assert "gigpo assigns credit per turn" in sentence


@pytest.mark.parametrize("estimator", [name for name, entry in ESTIMATORS.items() if entry.needs_groups])
def test_group_estimators_need_groups_of_at_least_two(estimator):
    ((_, sentence),) = problems({"algorithm": {"estimator": estimator}, "rollout": {"group_size": 1}})
    assert f"{estimator} compares the trajectories of a group" in sentence


def test_reward_terms_have_registered_names_and_bounded_weights():
    assert RunConfig.model_validate({"rewards": {"terms": {"repeats": -0.5}}}).rewards.terms == {"repeats": -0.5}
    ((field, sentence),) = problems({"rewards": {"terms": {"wit": 1}}})
    assert field == "rewards.terms"
    assert "no reward term 'wit'; choose among thought_present" in sentence
    ((_, sentence),) = problems({"rewards": {"terms": {"repeats": 1000}}})
    assert "the weight of repeats must be between -100 and 100" in sentence
