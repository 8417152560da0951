"""Settings of a study in words: shared ones, those that differ between environments and arms, and the paper's own."""

from __future__ import annotations

import pytest

from trainer.studies import page
from trainer.studies.catalogue import STUDIES, find
from trainer.studies.cell_settings import configuration
from trainer.studies.document import markdown
from trainer.studies.grid import cells
from trainer.studies.limits import POCKET, limits
from trainer.studies.method import ArmConfig, across_environments, differing_settings, shared_settings
from trainer.studies.outcomes import EvaluationResult, Outcome
from trainer.studies.paper import REPORTED, other_estimators


def configs(name, scale="pocket"):
    study = find(name)
    return [
        ArmConfig(environment, arm.title, arm.name, configuration(study, scale, environment, arm, 0))
        for environment in study.environments
        for arm in study.arms
    ]


def test_settings_that_differ_between_environments_are_given_for_each():
    rows = shared_settings(configs("figure-9"))
    assert rows["policy learning rate"] == "0.0002; FrozenLake: 0.0004"
    assert rows["learning-rate schedule"] == "constant; FrozenLake: cosine to 0"
    assert rows["updates per rollout"] == "1; Sokoban: 2"
    assert rows["E, trajectories per optimiser step"] == "32"
    assert rows["estimator"] == "GRPO"
    assert rows["iterations, P × N"] == "40, 8 × 8"


def test_settings_that_differ_between_arms_name_the_arms():
    rows = shared_settings(configs("appendix-d"))
    assert rows["policy learning rate"] == (
        "0.0002 (LoRA, rate × 10: 0.002, LoRA, rate × 5: 0.001, LoRA, rate × 2: 0.0004); "
        "FrozenLake: 0.0004 (LoRA, rate × 10: 0.004, LoRA, rate × 5: 0.002, LoRA, rate × 2: 0.0008)"
    )
    assert (
        shared_settings(configs("figure-5"))["estimator"]
        == "PPO (GRPO: GRPO, rewards divided by the group's spread, GRPO, not divided: GRPO)"
    )


def test_imitation_has_its_own_learning_rate_and_no_estimator():
    rows = shared_settings(configs("appendix-c"))
    assert rows["policy learning rate"] == "0.0002 (SFT: 0.0001); FrozenLake: 0.0004 (SFT: 0.0001)"
    assert rows["estimator"] == "GRPO (SFT: none, imitates solutions)"
    assert rows["learning-rate schedule"] == "constant; FrozenLake: cosine to 0 (SFT: constant)"
    assert "SFT: 40 of 128 solutions" in rows["iterations, P × N"]


def test_a_row_of_many_arms_only_states_that_they_differ():
    (first, *_) = configs("figure-9")
    many = [
        ArmConfig("bandit", f"arm {n}", f"arm-{n}", first.config.model_copy(update={"iterations": n}))
        for n in range(1, 30)
    ]
    assert shared_settings(many)["iterations, P × N"] == "differs between arms"


def test_arms_differ_in_settings_of_every_environment():
    own = differing_settings(configs("appendix-d"))
    assert own["full"]["optimizer.policy_lr"] == "0.0002; FrozenLake: 0.0004"
    assert own["lora"]["optimizer.policy_lr"] == "0.002; FrozenLake: 0.004"
    assert own["lora"]["lora.rank"] == "64"
    assert "environment.name" not in own["lora"]
    assert "optimizer.lr_schedule" not in own["lora"], "it differs only between environments"


def test_one_value_stands_for_equal_environments():
    assert across_environments({"bandit": "1", "sokoban": "1"}) == "1"
    assert across_environments({"bandit": "1", "sokoban": "2", "frozen_lake": "1"}) == "1; Sokoban: 2"
    assert across_environments({}) == ""


@pytest.mark.parametrize(
    ("name", "scale", "note"),
    [
        ("figure-9", "pocket", "All arms: GRPO; the paper's figures are of PPO."),
        ("figure-9", "paper", ""),
        ("figure-5", "pocket", ""),
        ("table-2", "pocket", ""),
        ("appendix-c", "pocket", "StarPO-S: GRPO; the paper's figures are of PPO."),
        (
            "echo-trap",
            "pocket",
            "StarPO-S: GRPO, rewards divided by the group's spread; the paper's figures are of PPO.",
        ),
    ],
)
def test_arms_with_another_estimator_than_the_papers_are_named(name, scale, note):
    assert other_estimators(name, configs(name, scale)) == note


def test_a_page_states_estimators_settings_and_limits(tmp_path):
    study = find("table-4")
    grid = cells(study, "pocket", 1, tmp_path)
    final = EvaluationResult(40, 2, 0.5, 0, 1, (1.0, 0.0))
    outcomes = [Outcome("sokoban", "think", 0, evaluations={"Sokoban": [final]}, suite="Sokoban")]
    record = page.StudyRecord("pocket", "study table-4", "a machine", 1.0, 0, 1, 1, "2026-01-01")
    text = markdown(page.write(page.collect_results(study, outcomes, record), grid, record))
    assert POCKET["table-4"] in text
    assert "| updates per rollout | 1; Sokoban: 2 |" in text
    assert "the paper's figures are of PPO." in text
    assert "in the bandit on arms pulled at random" in " ".join(text.split())
    assert "hold for them only" not in text
    unknown = [
        Outcome("sokoban", "think", 0, evaluations={"Sokoban": [EvaluationResult(40, 2, 0.5, 0, 1)]}, suite="Sokoban")
    ]
    assert "hold for them only" in markdown(page.write(page.collect_results(study, unknown, record), grid, record))


def test_limits_of_the_pocket_policy_are_not_those_of_the_paper():
    assert set(POCKET) <= set(STUDIES) == set(REPORTED)
    assert limits("table-4", "pocket") == POCKET["table-4"]
    assert limits("table-4", "paper") == ""
    assert limits("figure-9", "pocket") == ""


def test_the_question_about_actions_states_the_turns_that_the_arms_have():
    for scale in ("pocket", "paper"):
        rollouts = {(one.config.rollout.max_turns, one.config.rollout.max_actions) for one in configs("table-3", scale)}
        assert rollouts == {(5, 10)}
    assert "five turns and at most ten actions" in find("table-3").question
