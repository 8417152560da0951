"""Every architecture of the table can be trained in, or is refused before anything is sampled."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast

from tests.tiers import nightly_but
from tests.trainer import tiny
from tests.trainer.policy.architectures import ARCHITECTURES, Architecture
from trainer.config.run import RunConfig
from trainer.journal import reader
from trainer.journal.events import Metrics, TrajectoryFinished
from trainer.journal.protocol import JOURNAL_FILE
from trainer.loops import run_factory
from trainer.loops.stages import checkpoints
from trainer.policy.load import ModelError

COLUMNS: Mapping[str, Mapping[str, Any]] = {
    "float32": {},
    "bf16": {"policy": {"dtype": "bfloat16"}},
    "LoRA": {"lora": {"rank": 2, "alpha": 4, "dropout": 0.0}},
    "checkpointing": {"optimizer": {"gradient_checkpointing": True}},
}
MISMATCH = {"bf16": 1e-2}
"""Largest mean divergence (k3) of the sampler from the update, by column; 1e-6 for the others."""


def config_of(folder: Path, column: str) -> RunConfig:
    return tiny.config(
        folder,
        iterations=1,
        rollout={
            "groups": 1,
            "group_size": 2,
            "max_response_tokens": 6,
            "format_line": "placeholders",
        },  # short prompts
        algorithm={"estimator": "gae", "drop_zero_std": False},  # random policies earn the same reward
        evaluation={"prompts": 0},
        **COLUMNS[column],
    )


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return tiny.styles()["chatml"]


@pytest.mark.parametrize("column", nightly_but(COLUMNS, ["float32"]))
@pytest.mark.parametrize("architecture", [one for one in ARCHITECTURES if not one.refused], ids=lambda one: one.name)
def test_an_iteration_is_sampled_and_learned(
    architecture: Architecture, column: str, tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    folder = architecture.save(tmp_path / "model", tokenizer)
    end = run_factory.run(config_of(folder, column), tmp_path / "run", tmp_path / "cache")
    assert end.reason == "completed"
    recorded = list(reader.read(tmp_path / "run" / JOURNAL_FILE))
    assert [event.error for event in recorded if isinstance(event, TrajectoryFinished)] == [None, None]
    values = {name: value for event in recorded if isinstance(event, Metrics) for name, value in event.values.items()}
    assert values["update/steps"] == 1
    assert values["policy/grad_norm"] > 0
    assert 0 <= values["mismatch/k3"] < MISMATCH.get(column, 1e-6)
    assert checkpoints.checkpoint_iterations(tmp_path / "run") == [1]


@pytest.mark.parametrize("column", nightly_but(COLUMNS, ["float32", "LoRA"]))
@pytest.mark.parametrize("architecture", [one for one in ARCHITECTURES if one.refused], ids=lambda one: one.name)
def test_a_run_is_refused_before_anything_is_sampled(
    architecture: Architecture, column: str, tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    folder = architecture.save(tmp_path / "model", tokenizer)
    with pytest.raises(ModelError, match=architecture.refused):
        run_factory.run(config_of(folder, column), tmp_path / "run", tmp_path / "cache")
    journal = tmp_path / "run" / JOURNAL_FILE
    recorded = list(reader.read(journal)) if journal.exists() else []
    assert not any(isinstance(event, TrajectoryFinished) for event in recorded)
    assert not checkpoints.checkpoint_iterations(tmp_path / "run")
