"""LoRA section of RunConfig."""

from __future__ import annotations

from pydantic import field_validator

from trainer.config.base import Section, TextList, setting


class LoraConfig(Section):
    """Training of small adapters (LoRA) instead of all weights: about half the memory."""

    rank: int = setting(
        0,
        "Rank of the adapters of policy and critic; 0 = off, all weights are trained. Adapters need learning rates "
        "about ten times as high: optimizer.policy_lr, optimizer.critic_lr.",
        source="paper, appendix D: 64, learning rates × 10",
        ge=0,
        le=1024,
    )
    alpha: int = setting(
        64,
        "α: the output of the adapters is scaled by α / rank.",
        source="paper, appendix D: 64; SFT baseline 32",
        gt=0,
        le=10_000,
    )
    dropout: float = setting(0.0, "Dropout on the input of an adapter during training.", ge=0, lt=1)
    targets: TextList = setting(
        ["all-linear"],
        "Layers that get an adapter: all-linear, or layer names such as q_proj, v_proj.",
        source="paper, appendix D: all linear layers",
    )

    @field_validator("targets")
    @classmethod
    def check_targets(cls, value: list[str]) -> list[str]:
        """At least one name, and all-linear only alone."""
        if not value or not all(value):
            raise ValueError("name at least one layer, or all-linear")
        if "all-linear" in value and len(value) > 1:
            raise ValueError("all-linear must stand alone: it includes every other name")
        return value
