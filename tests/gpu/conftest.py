"""Tests on a CUDA GPU: skipped where PyTorch sees none. They need neither the site nor its servers."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from trainer.config.run import PolicyConfig
from trainer.paths import POCKET_CHECKPOINT
from trainer.policy.load import Policy, load


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder, and skip it without a GPU."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.gpu)
            if not torch.cuda.is_available():
                item.add_marker(pytest.mark.skip(reason="PyTorch sees no GPU here"))


def pocket(device: str, dtype: str = "float32") -> Policy:
    """A copy of the shipped policy that a test may change."""
    return load(POCKET_CHECKPOINT, PolicyConfig(device=device, dtype=dtype))


@pytest.fixture
def on_cpu() -> Policy:
    return pocket("cpu")


@pytest.fixture
def on_gpu() -> Policy:
    return pocket("cuda")
