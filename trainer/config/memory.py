"""The section of RunConfig about what is done when a run may not fit its device. Only settings."""

from __future__ import annotations

from typing import Literal

from trainer.config.base import Section, setting


class MemoryConfig(Section):
    """What is done when a run may not fit its device's memory."""

    guard: Literal["refuse", "warn", "none"] = setting(
        "refuse",
        "A run that will not fit, as reckoned before it is loaded: refuse it, warn of it, or do not look (none).",
    )
    rows: int = setting(
        0,
        "Most trajectories that the transformers engine plays at once; 0 = as many as fit. The others wait their turn.",
        unit="trajectories",
        ge=0,
        le=65_536,
    )
