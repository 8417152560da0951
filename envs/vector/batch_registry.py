"""Registry of batch implementations."""

from __future__ import annotations

from typing import Any

from envs import registry
from envs.vector.bandit_batch import BanditBatch
from envs.vector.batch_env import BatchEnv
from envs.vector.frozen_lake_batch import FrozenLakeBatch
from envs.vector.loop import LoopBatch
from envs.vector.sokoban_batch import SokobanBatch

BATCHES: tuple[type[BatchEnv], ...] = (SokobanBatch, FrozenLakeBatch, BanditBatch, LoopBatch)
"""The first that supports an environment is used; the loop supports all."""


def make_batch(name: str, count: int, settings: dict[str, Any] | None = None) -> BatchEnv:
    """Make a batch of `count` environments. Raises ValueError for an unknown name or invalid settings."""
    kind = registry.environment_class(name)
    batch_class = next(batch for batch in BATCHES if batch.supports(kind))
    return batch_class(kind, kind.Settings.model_validate(settings or {}), count)
