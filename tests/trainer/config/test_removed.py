"""Names of removed settings: refused with what replaces them, and tolerated in what was stored with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from trainer.config.files import load_stored, load_yaml, validation_errors, with_overrides
from trainer.config.removed import REMOVED, removal_text, stored_config
from trainer.config.run import RunConfig


def with_removed(name: str) -> dict[str, object]:
    section, _, field = name.partition(".")
    config = RunConfig(seed=7).model_dump(mode="json")
    return config | {section: config[section] | {field: 0}}


@pytest.mark.parametrize("name", REMOVED)
def test_a_removed_setting_is_refused_with_what_replaces_it_and_read_from_what_was_stored(
    name: str, tmp_path: Path
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(with_removed(name)))
    for use in (lambda: load_yaml(file), lambda: with_overrides(RunConfig(), [f"{name}=1"])):
        with pytest.raises(ValidationError) as refused:
            use()
        assert validation_errors(refused.value) == [(name, removal_text(name))]
    assert load_stored(file) == stored_config(with_removed(name)) == RunConfig(seed=7)


def test_stored_prices_of_a_hosted_model_are_kept() -> None:
    hosted = {"prompt_price_per_million": 0.15, "max_cost": 1.0}
    assert stored_config({"hosted": hosted}).hosted.price_per_million == [0.15, 0]
    hosted["completion_price_per_million"] = 0.6
    assert stored_config({"hosted": hosted}).hosted.prices == (0.15, 0.6)


@pytest.mark.parametrize(
    ("stored", "value"),
    [
        ({"optimizer": {"lr_schedule": "cosine", "lr_min_ratio": 0.2}}, "cosine_to_fifth"),
        ({"optimizer": {"lr_schedule": "cosine", "lr_min_ratio": 0.0}}, "cosine"),
        ({"optimizer": {"lr_schedule": "constant", "lr_min_ratio": 0.2}}, "constant"),
        ({"algorithm": {"kl_penalty": "reward_k1", "kl_placement": "loss", "kl_estimator": "k3"}}, "loss_k3"),
        ({"algorithm": {"kl_penalty": "reward_k1", "kl_placement": "loss"}}, "loss_k1"),
        ({"environment": {"wording": "paper"}, "rollout": {"format_line": "auto"}}, "paper"),
        ({"environment": {"wording": "paper"}, "rollout": {"format_line": "words"}}, "words"),
        ({"algorithm": {"reward_normalization": "mean_std", "reward_grouping": "environment"}}, "environment_mean_std"),
        ({"algorithm": {"reward_normalization": "mean", "reward_grouping": "state"}}, "mean"),
        ({"algorithm": {"reward_normalization": "identity", "reward_grouping": "batch"}}, "identity"),
    ],
)
def test_a_stored_setting_takes_over_the_value_of_a_removed_one(stored: dict[str, Any], value: str) -> None:
    section, settings = list(stored.items())[-1]
    kept = next(name for name in settings if f"{section}.{name}" not in REMOVED)
    assert getattr(getattr(stored_config(stored), section), kept) == value


def test_stored_changes_at_a_rewind_lose_removed_settings() -> None:
    changes = {"algorithm.value_clip": "0.2", "algorithm.entropy_coef": "0.01"}
    stored = stored_config({"echo_trap": {"action": "rewind", "rewind_changes": changes}})
    assert stored.echo_trap.rewind_changes == {"algorithm.entropy_coef": "0.01"}


def test_a_stored_prefill_is_kept() -> None:
    hosted = stored_config({"hosted": {"prefill": True, "extra_body": {"top_k": 3}}}).hosted
    assert hosted.prefills
    assert hosted.extra_body == {"continue_final_message": True, "top_k": 3}


def test_a_stored_split_of_the_engine_is_kept() -> None:
    stored: dict[str, Any] = {"engine": {"name": "vllm", "tensor_parallel": 2}}
    assert stored_config(stored).engine_parts == 2
    stored["cluster"] = {"rollout_actors": 3, "rollout_resources": {"cpus": 4, "gpus": 2}}
    stored["cluster"]["learner_resources"] = {"cpus": 3}
    assert stored_config(stored).cluster.resources == {"rollout_cpus": 4, "rollout_gpus": 2, "learner_cpus": 3}


@pytest.mark.parametrize(
    "stored",
    [
        {"rollout": {"group": 3}},
        {"engine": {"tensor_parallel": 2}, "cluster": "many"},
        {"engine": {"tensor_parallel": "two"}, "cluster": {"rollout_resources": "all", "learners": -1}},
    ],
)
def test_a_stored_configuration_with_a_mistake_is_refused(stored: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        stored_config(stored)


def test_stored_pairs_share_their_gpus() -> None:
    stored = {"learners": 2, "rollout_actors": 2, "shared_gpus": True, "resources": {"rollout_cpus": 3}}
    cluster = stored_config({"cluster": stored}).cluster
    assert (cluster.pairs("train"), cluster.rollout_reservation.cpus) == (2, 3)
