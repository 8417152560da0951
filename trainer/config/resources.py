"""Memory and multi-process sections of RunConfig."""

from __future__ import annotations

from typing import Literal

from trainer.config.base import Section, setting


class MemoryConfig(Section):
    """Check that a run fits its device's memory."""

    preflight: Literal["refuse", "warn", "none"] = setting(
        "refuse",
        "If the memory estimate exceeds the device: refuse the run, warn, or skip the check (none).",
        formerly="guard",
    )
    max_concurrent_trajectories: int = setting(
        0,
        "Maximum number of trajectories that the transformers engine plays at once; 0 = as many as fit. The others "
        "follow in further chunks.",
        unit="trajectories",
        formerly="rows",
        ge=0,
        le=65_536,
    )


class ParallelConfig(Section):
    """Several processes for one run, started by `python -m torch.distributed.run`."""

    sharding: Literal["none", "full"] = setting(
        "none",
        "none: every process holds all weights and only gradients are exchanged; full: weights, gradients and moments "
        "are sharded over the processes (FSDP2), for models that do not fit otherwise.",
    )
    timeout: float = setting(
        1800.0, "Maximum wait of the processes for each other within an update.", unit="seconds", gt=0, le=86_400
    )
