"""Configurations that compute the same although they differ, and the name of their algorithm."""

from __future__ import annotations

from typing import Any

import pytest

from trainer.config.computation import computation_digest
from trainer.config.files import load_preset, with_values
from trainer.config.notes import notes
from trainer.config.run import RunConfig

BASE = load_preset("bandit-starpo-pocket")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"algorithm.group_filter": "std", "algorithm.group_filter_keep": 1.0}, {}, True),
        ({"algorithm.group_filter": "range", "algorithm.group_filter_keep": 1.0}, {}, True),
        ({"algorithm.group_filter": "std", "algorithm.group_filter_keep": 0.5}, {}, False),
        ({"algorithm.group_filter": "min_p", "algorithm.group_filter_keep": 1.0}, {}, False),
        ({"algorithm.group_filter": "soft"}, {}, False),
        ({"name": "Mine", "tags": ["a"]}, {"name": "Yours"}, True),
        ({"seed": 1}, {"seed": 2}, False),
        (
            {"algorithm.kl_coef": 0.0, "algorithm.kl_penalty": "reward_k1"},
            {"algorithm.kl_coef": 0.0, "algorithm.kl_penalty": "reward_k3"},
            True,
        ),
        (
            {"algorithm.kl_coef": 0.1, "algorithm.kl_penalty": "reward_k1"},
            {"algorithm.kl_coef": 0.1, "algorithm.kl_penalty": "reward_k3"},
            False,
        ),
    ],
)
def test_runs_are_the_same_computation_whatever_has_no_effect(
    one: dict[str, Any], other: dict[str, Any], same: bool
) -> None:
    first, second = (with_values(BASE, {"algorithm.group_filter": "none"} | values) for values in (one, other))
    assert (computation_digest(first) == computation_digest(second)) is same


@pytest.mark.parametrize(
    ("method", "keep", "variant"),
    [("none", 1.0, "StarPO"), ("std", 1.0, "StarPO"), ("std", 0.25, "StarPO-S"), ("min_p", 1.0, "StarPO-S")],
)
def test_only_a_filter_that_drops_something_makes_starpo_s(method: str, keep: float, variant: str) -> None:
    config = with_values(RunConfig(), {"algorithm.group_filter": method, "algorithm.group_filter_keep": keep})
    assert f" {variant} ·" in config.title()
    said = any("the same as “none”" in note for note in notes(config))
    assert said is (method == "std" and keep == 1.0)
