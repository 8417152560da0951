"""Settings that have no effect given others."""

from __future__ import annotations

import pytest

from trainer.config.dotted import value_at
from trainer.config.files import load_preset, preset_names, with_overrides
from trainer.config.notes import ignored_filter, notes
from trainer.config.run import RunConfig


def without_effect(**sections: object) -> dict[str, str]:
    return RunConfig.without_effect(RunConfig.model_validate(sections).model_dump())


def test_the_ablation_of_the_filter_is_one_change():
    config = with_overrides(load_preset("sokoban-starpo_s-pocket"), ["algorithm.group_filter=none"])
    assert config.algorithm.group_filter_keep == 0.5  # kept for the time when the filter comes back
    note = ignored_filter(config)
    assert note == "algorithm.group_filter_keep = 0.5 is ignored: group filter “none” keeps all groups"


@pytest.mark.parametrize("method", ["std", "std_rev", "range", "snr", "top_p_linear", "top_p_softmax", "min_p"])
def test_the_kept_share_matters_to_every_filter_that_chooses(method: str):
    config = RunConfig.model_validate({"algorithm": {"group_filter": method, "group_filter_keep": 0.5}})
    assert ignored_filter(config) == ""
    assert "algorithm.group_filter_keep" not in RunConfig.without_effect(config.model_dump())


def test_sections_of_other_kinds_engines_and_estimators_have_no_effect():
    usual = without_effect()
    assert {"sft.batch", "hosted.url", "hosted.model", "engine.urls", "engine.gpu_memory_utilization"} <= set(usual)
    assert "lora.alpha" in usual
    assert "lora.rank" not in usual
    assert "algorithm.value_coef" not in usual  # gae has a critic
    assert "algorithm.value_coef" in without_effect(algorithm={"estimator": "grpo"})
    assert "engine.gpu_memory_utilization" not in without_effect(engine={"name": "vllm"})
    evaluation = without_effect(kind="evaluate")
    assert {"iterations", "rollout.groups", "algorithm.estimator"} <= set(evaluation)
    assert "hosted.url" not in evaluation
    assert "sft.batch" not in without_effect(kind="sft")


def test_every_name_is_a_setting():
    everything = RunConfig().model_dump()
    for config in ({}, {"kind": "evaluate"}, {"kind": "sft"}, {"evaluation": {"prompts": 0}}):
        for name in RunConfig.without_effect(RunConfig.model_validate(config).model_dump()):
            assert name in everything or isinstance(value_at(everything, name.rpartition(".")[0]), dict)


def test_a_text_that_is_no_number_hides_nothing():
    assert "lora.alpha" not in RunConfig.without_effect({"lora": {"rank": "many"}})


@pytest.mark.parametrize("preset", preset_names())
def test_presets_ignore_nothing(preset: str):
    assert ignored_filter(load_preset(preset)) == ""


@pytest.mark.parametrize("preset", preset_names())
def test_presets_need_no_note(preset: str):
    assert notes(load_preset(preset)) == []


def test_a_note_names_environments_that_the_pocket_policy_was_not_warmed_up_on():
    own = {"name": "FrozenLake", "mix": [{"name": "Sudoku", "share": 0.2}, {"name": "Boxoban", "share": 0.2}]}
    (note,) = notes(RunConfig.model_validate({"environment": own}))
    assert "has never seen Sudoku and Boxoban" in note
    assert "kind sft" in note
    (note,) = notes(RunConfig.model_validate({"environment": {"name": "Countdown"}}))
    assert "warmup.course countdown teaches it" in note


@pytest.mark.parametrize(
    "changes",
    [
        {"policy": {"model": "Qwen/Qwen2.5-0.5B-Instruct"}},
        {"kind": "sft"},
        {"kind": "evaluate"},
        {"environment": {"name": "BanditTest"}},
    ],
)
def test_other_models_kinds_and_taught_environments_need_no_such_note(changes: dict[str, object]):
    assert notes(RunConfig.model_validate({"environment": {"name": "Sudoku"}} | changes)) == []


def test_settings_of_filter_and_dynamic_sampling_have_an_effect_only_together_with_others():
    scaling, dropped = "algorithm.filter_loss_scaling", "algorithm.drop_zero_std"
    usual = without_effect()
    assert scaling not in usual, "groups without spread are dropped, so that the kept share is below 1"
    assert dropped not in usual
    assert scaling in without_effect(algorithm={"drop_zero_std": False})
    assert scaling in without_effect(algorithm={"dynamic_sampling_rounds": 3})
    assert scaling not in without_effect(algorithm={"group_filter": "std", "drop_zero_std": False})
    sampled = without_effect(algorithm={"dynamic_sampling_rounds": 3})
    assert "dynamic sampling" in sampled[dropped]
    assert "algorithm.dynamic_sampling_rounds" in without_effect(kind="sft")


def test_settings_of_actors_need_actors():
    usual = without_effect()
    assert "cluster.resources" in usual
    assert not {"cluster.rollout_actors", "cluster.learners"} & set(usual)
    for sections in ({"cluster": {"rollout_actors": 2}}, {"cluster": {"learners": 1}}, {"engine": {"name": "vllm"}}):
        assert "cluster.resources" not in without_effect(**sections)
    assert "cluster.learners" in without_effect(kind="evaluate", cluster={"learners": 1})
