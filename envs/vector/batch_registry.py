"""Which engine plays which environment. The engines themselves stand in the modules beside this one."""

from __future__ import annotations

from typing import Any

from envs import registry
from envs.vector.bandit_batch import BanditBatch
from envs.vector.batch_env import BatchEnv
from envs.vector.frozen_lake_batch import FrozenLakeBatch
from envs.vector.loop import LoopBatch
from envs.vector.sokoban_batch import SokobanBatch

ENGINES: tuple[type[BatchEnv], ...] = (SokobanBatch, FrozenLakeBatch, BanditBatch, LoopBatch)
"""The first that plays by an environment's rules is taken; the loop plays by any."""


def make_batch(name: str, count: int, settings: dict[str, Any] | None = None) -> BatchEnv:
    """`count` environments of that name. Raises ValueError for an unknown name or settings that do not fit."""
    kind = registry.environment_class(name)
    engine = next(engine for engine in ENGINES if engine.plays(kind))
    return engine(kind, kind.Settings.model_validate(settings or {}), count)
