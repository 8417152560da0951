"""Every architecture of the table can be trained in float32, or is refused before anything is sampled.

The other columns differ by kind of layer, not by family: one architecture of each kind is trained in them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet
from transformers import PreTrainedTokenizerFast

from tests.trainer import tiny
from tests.trainer.policy.architectures import ARCHITECTURES, KINDS, Architecture
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
    "LoRA": {"lora": {"rank": 2, "alpha": 4}},
    "checkpointing": {"optimizer": {"gradient_checkpointing": True}},
}
REFUSED_KINDS = {"Gemma 2", "Granite 4 (hybrid)"}
"""One refused for its scores, and one with layers that are not attention."""
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


def trials(tried: Iterable[Architecture], kinds: Collection[str], columns: Collection[str]) -> list[ParameterSet]:
    """Architecture and column of each case: every one in float32, `kinds` in all, of which `columns` every commit."""
    return [
        pytest.param(one, column, id=f"{one.name}-{column}", marks=() if column in columns else pytest.mark.nightly)
        for one in tried
        for column in COLUMNS
        if column == "float32" or one.name in kinds
    ]


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return tiny.styles()["chatml"]


@pytest.mark.parametrize(
    ("architecture", "column"), trials([one for one in ARCHITECTURES if not one.refused], KINDS, ["float32"])
)
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


@pytest.mark.parametrize(
    ("architecture", "column"),
    trials([one for one in ARCHITECTURES if one.refused], REFUSED_KINDS, ["float32", "LoRA"]),
)
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
