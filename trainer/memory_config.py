"""The section of RunConfig about what is done when a run may not fit its device. Only settings."""

from __future__ import annotations

from typing import Literal

from trainer.sections import Section, setting


class MemoryConfig(Section):
    """What is done when a run may not fit its device's memory."""

    guard: Literal["refuse", "warn", "off"] = setting(
        "refuse",
        "Before a run is loaded its memory is reckoned: one that will not fit is refused, warned of, or not looked at.",
    )
    rows: int = setting(
        0,
        "Most trajectories that the transformers engine plays at once; 0 = as many as fit. The others wait their turn.",
        unit="trajectories",
        ge=0,
        le=65_536,
    )
