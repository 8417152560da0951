"""Changes of one thing for clones: which ones each kind of run gets, and that its configuration allows them."""

from __future__ import annotations

from typing import Any

import pytest

from trainer.config.run import RunConfig
from webapp.runs.launch.overrides import changes
from webapp.runs.launch.variations import of_config


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (
            {"seed": 4},
            {
                "seed": {"seed": 5},
                "filter": {"algorithm.group_filter": "std", "algorithm.group_filter_keep": 0.25},
                "learning-rate": {"optimizer.policy_lr": 5e-5},
            },
        ),
        (
            {"algorithm": {"group_filter": "snr", "group_filter_keep": 0.9}},
            {
                "seed": {"seed": 1},
                "filter": {"algorithm.group_filter": "none"},
                "learning-rate": {"optimizer.policy_lr": 5e-5},
            },
        ),
        ({"kind": "sft"}, {"seed": {"seed": 1}, "learning-rate": {"sft.learning_rate": 5e-5}}),
        ({"kind": "evaluate", "evaluation": {"prompts": 64}}, {"prompts": {"evaluation.prompts": 128}}),
    ],
    ids=["StarPO", "StarPO-S", "SFT", "evaluation"],
)
def test_each_kind_of_run_has_its_own_variations(config: dict[str, Any], expected: dict[str, dict[str, Any]]) -> None:
    base = RunConfig.model_validate(config)
    found = of_config(base.model_dump(mode="json"))
    assert {variation.key: changes(variation.config, base) for variation in found} == expected


def test_variations_that_the_configuration_does_not_allow_are_left_out() -> None:
    single = RunConfig.model_validate(
        {"rollout": {"group_size": 1}, "algorithm": {"estimator": "gae"}, "seed": 2**32 - 1}
    )
    assert [variation.key for variation in of_config(single.model_dump(mode="json"))] == ["learning-rate"]


def test_a_configuration_of_another_version_has_none() -> None:
    assert of_config({"no_such_setting": 1}) == []
