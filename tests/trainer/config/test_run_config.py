"""RunConfig: validation messages, digests and titles."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from trainer.algorithms.estimators import ESTIMATORS
from trainer.config.files import (
    load_preset,
    load_yaml,
    preset_names,
    validation_errors,
    with_overrides,
)
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
        ({"algorithm": {"clip_low": 1}}, "algorithm.clip_low", "must be less than 1"),
        (
            {"algorithm": {"group_filter": "best"}},
            "algorithm.group_filter",
            "'top_p_linear', 'top_p_softmax', 'min_p' or 'soft'",
        ),
        ({"warp": 9}, "warp", "there is no setting of this name"),
        ({"name": "x" * 121}, "name", "must be at most 120 characters"),
        ({"rollout": {"group_size": 1}, "algorithm": {"group_filter": "std"}}, "", "needs groups of at least 2"),
        ({"environment": {"name": "Hanoi"}}, "environment.name", "unknown environment 'Hanoi'; choose one of Sokoban"),
        ({"environment": {"settings": {"boxes": 99}}}, "environment.settings.boxes", "must be at most 4"),
        (
            {"environment": {"mix": [{"name": "Sokoban", "share": 0.5}]}},
            "environment.mix",
            "lists Sokoban, which is environment.name already",
        ),
        (
            {"evaluation": {"suites": ["Sokoban"]}},
            "evaluation.suites",
            "names Sokoban, in which the run is evaluated anyway",
        ),
        ({"policy": {"revision": "main"}}, "policy.revision", "belongs to a hub id such as Qwen/Qwen3-0.6B"),
        (
            {"policy": {"model": "Qwen/Qwen3-0.6B", "revision": "--all"}},
            "policy.revision",
            "must be a commit, a tag or a branch, not '--all'",
        ),
        ({"engine": {"name": "server"}}, "engine.name", "is 'server', but engine.urls is empty"),
    ],
)
def test_a_problem_is_described_with_its_field(data, field, message):
    ((where, sentence),) = problems(data)
    assert where == field
    assert message in sentence


def test_a_message_never_repeats_the_name_of_its_field():
    unknown = {"action": "rewind", "rewind_changes": {"rollout.no_such": 1}}
    mixed = {"name": "Bandit", "mix": [{"name": "Bandit", "share": 0.5}]}
    for data in ({"environment": mixed}, {"echo_trap": unknown}):
        for field, sentence in problems(data):
            assert not sentence.startswith(field), f"{field}: {sentence}"


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


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x" * 4001, "must have at most 4000 characters, not 4001: a task belongs in environment.instruction"),
        ("a\0b", "must not contain the control character '\\x00': remove it"),
        ("a\x1b[0m", "must not contain the control character '\\x1b': remove it"),
        (None, "must be a text, not None"),
    ],
)
def test_an_unusable_system_message_is_refused(text, sentence):
    assert problems({"rollout": {"system": text}}) == [("rollout.system", sentence)]


def test_a_system_message_is_kept_without_surrounding_white_space():
    assert RunConfig.model_validate({"rollout": {"system": "  One.\r\nTwo.\n"}}).rollout.system == "One.\nTwo."
    assert RunConfig.model_validate({"rollout": {"system": " \n"}}).rollout.system == ""


@pytest.mark.parametrize(("name", "value"), [("rollout.system", "Hello."), ("rollout.format_line", "paper")])
def test_a_setting_added_later_changes_the_digest_only_where_it_is_set(name, value):
    section, _, field = name.partition(".")
    recorded = RunConfig().model_dump()
    del recorded[section][field]
    before = RunConfig.model_validate(recorded).digest()
    assert field not in RunConfig().stable_dump()[section]
    assert before == RunConfig().digest() != RunConfig.model_validate({section: {field: value}}).digest()


def test_a_run_without_a_name_gets_a_descriptive_title():
    assert RunConfig().title() == "Sokoban · StarPO · pocket policy, seed 0"
    settings = {"policy": {"model": "Qwen/Qwen2.5-0.5B-Instruct"}, "algorithm": {"group_filter": "min_p"}, "seed": 3}
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


def test_a_section_at_its_defaults_that_was_added_later_leaves_the_digest_as_it_was():
    dump = RunConfig().stable_dump()
    assert "cluster" not in dump
    assert "groups_per_session" not in dump["rollout"]
    assert RunConfig.model_validate({"cluster": {"learners": 2}}).stable_dump()["cluster"] == {"learners": 2}
    digests = {RunConfig.model_validate({"cluster": {"learners": number}}).digest() for number in range(3)}
    assert len(digests) == 3


def test_servers_sample_outside_of_the_trainer_already():
    engine = {"name": "server", "urls": "http://gpu1:8000"}
    ((_, sentence),) = problems({"engine": engine, "cluster": {"rollout_actors": 2}, "algorithm": {"tis_cap": 2}})
    assert "Set cluster.rollout_actors to 0" in sentence
    RunConfig.model_validate({"engine": engine, "cluster": {"learners": 2}})


@pytest.mark.parametrize(
    ("engine", "resources", "parts"),
    [
        ("vllm", {}, 1),
        ("vllm", {"rollout_gpus": 0}, 1),
        ("vllm", {"rollout_gpus": 0.5}, 1),
        ("vllm", {"rollout_gpus": 4, "learner_gpus": 1}, 4),
        ("transformers", {"rollout_gpus": 4}, 1),
    ],
)
def test_a_vllm_engine_is_split_over_the_gpus_that_are_reserved_for_it(engine, resources, parts):
    config = {"engine": {"name": engine}, "cluster": {"resources": resources}}
    assert RunConfig.model_validate(config).engine_parts == parts


def test_revisions_are_read_as_yaml_reads_them_without_quotes():
    assert with_overrides(RunConfig(), ["policy.revision="]).policy.revision == ""
    digits = with_overrides(RunConfig(), ["policy.model=Qwen/Qwen3-0.6B", "policy.revision=1234567"])
    assert digits.policy.revision == "1234567"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"policy": {"model": 5}}, [("policy.model", "must be a text, not 5")]),
        (
            {"evaluation": {"suites": ["FrozenLake:x=1"]}},
            [("evaluation.suites", "'FrozenLake:x=1': x: there is no setting of this name")],
        ),
        (
            {"environment": {"mix": [{"name": "FrozenLake", "share": 0.2, "settings": {"size": "big"}}]}},
            [("environment.mix.0.settings", "FrozenLake: size: must be a whole number, not 'big'")],
        ),
    ],
)
def test_problems_are_described_in_our_words(settings, expected):
    assert problems(settings) == expected


def test_an_unknown_choice_is_one_problem_of_its_setting():
    ((field, text),) = problems({"rollout": {"tool_calls": "foo"}})
    assert field == "rollout.tool_calls"
    assert text.startswith("must be 'answer', 'hermes'")
    assert text.endswith("'auto' or 'native'")
