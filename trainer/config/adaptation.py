"""The sections of RunConfig about LoRA adapters and about the baseline that imitates a solver. Only settings."""

from __future__ import annotations

from typing import Any

from pydantic import field_validator

from trainer.config.base import Section, setting


class LoraConfig(Section):
    """Training small adapters (LoRA) instead of all weights: about half the memory."""

    rank: int = setting(
        0,
        "Rank of the adapters of policy and critic; 0 = off: all weights are trained. Adapters want learning rates "
        "ten times as high: optimizer.policy_lr, optimizer.critic_lr.",
        source="paper, appendix D: 64, learning rates × 10",
        ge=0,
        le=1024,
    )
    alpha: int = setting(
        64,
        "α: what the adapters compute is multiplied with α / rank.",
        source="paper, appendix D: 64; SFT baseline 32",
        gt=0,
        le=10_000,
    )
    dropout: float = setting(0.0, "Share of an adapter's inputs left out at random while learning.", ge=0, lt=1)
    targets: list[str] = setting(
        ["all-linear"],
        "Layers that get an adapter: all-linear, or names of layers such as q_proj, v_proj.",
        source="paper, appendix D: all linear layers",
    )

    @field_validator("targets", mode="before")
    @classmethod
    def one_or_several(cls, value: Any) -> Any:
        """A single name is a list of one."""
        return [value] if isinstance(value, str) else value

    @field_validator("targets")
    @classmethod
    def named(cls, value: list[str]) -> list[str]:
        if not value or not all(value):
            raise ValueError("name at least one layer, or all-linear")
        if "all-linear" in value and len(value) > 1:
            raise ValueError("all-linear stands alone: it takes in every other name")
        return value


class SftConfig(Section):
    """The baseline of runs of kind sft: imitating a solver's play, one step of the optimiser in each iteration."""

    demonstrations: int = setting(
        1000, "Demonstrations learned from.", unit="trajectories", source="paper, appendix C: 1,000", gt=0, le=1_000_000
    )
    held_out: int = setting(
        100, "Further ones that only measure.", unit="trajectories", source="paper, appendix C: 100", ge=0, le=100_000
    )
    depth: int = setting(
        100,
        "Longest solution that is shown, as the solver counts at the start.",
        unit="actions",
        source="paper, appendix C: breadth-first search to depth 100",
        gt=0,
        le=100_000,
    )
    only_successes: bool = setting(True, "Leave out demonstrations that do not reach success.")
    batch: int = setting(
        128,
        "Demonstrations per step of the optimiser.",
        unit="trajectories",
        source="paper, appendix C: 128",
        gt=0,
        le=65_536,
    )
    learning_rate: float = setting(1e-4, "Learning rate.", source="paper, appendix C: 1e-4", gt=0, le=1)
