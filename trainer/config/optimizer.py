"""Optimiser and LoRA sections of RunConfig: which weights are trained, and how."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import field_validator

from envs.text_roles import TextRole
from trainer.config.base import Section, TextList, setting

OptimizerName = Literal["adamw", "adamw_fused", "adamw_8bit", "adafactor", "sgd", "muon"]
PackedAttention = Literal["sdpa", "flex"]
LrSchedule = Literal["constant", "linear", "cosine"]


class OptimizerConfig(Section):
    """Optimiser steps of policy and critic: learning rates, batches, memory savings."""

    name: OptimizerName = setting(
        "adamw",
        "adamw (one kernel on a GPU); adamw_fused (one kernel on every device); adamw_8bit (moments in a quarter of "
        "the memory, needs bitsandbytes); adafactor (almost no memory); sgd (with β₁ as momentum); muon (matrices by "
        "orthogonalised momentum, the rest by adamw).",
        source="paper: Adam",
    )
    policy_lr: float = setting(1e-4, "Learning rate of the policy.", source="RAGEN code: 1e-6", gt=0, le=1)
    critic_lr: float = setting(1e-3, "Learning rate of the critic.", source="RAGEN code: 1e-5", gt=0, le=1)
    lr_schedule: LrSchedule = setting(
        "constant",
        "Course of both learning rates over the run's iterations, after the warm-up: constant, or a linear or cosine "
        "decay to lr_min_ratio. Steps that are noise move weights less towards the end.",
        source="RAGEN code: constant",
        added=True,
    )
    lr_warmup: int = setting(
        0, "First iterations over which the learning rates rise linearly.", unit="iterations", ge=0, added=True
    )
    lr_min_ratio: float = setting(0.0, "Where a decay ends, as a share of the learning rate.", ge=0, le=1, added=True)
    beta1: float = setting(0.9, "Adam β₁.", source="paper: 0.9", ge=0, lt=1)
    beta2: float = setting(0.999, "Adam β₂.", source="paper: 0.999", ge=0, lt=1)
    weight_decay: float = setting(0.0, "Decoupled weight decay.", source="RAGEN code: 0.01", ge=0, le=1)
    max_grad_norm: float = setting(1.0, "Gradients are clipped to this norm.", gt=0)
    mini_batch_trajectories: int = setting(
        32,
        "E: trajectories per optimiser step.",
        unit="trajectories",
        source="paper: 32",
        gt=0,
        le=65_536,
    )
    micro_batch_tokens: int = setting(
        16_384,
        "Maximum number of tokens in one forward pass of each process: padding included, shared prefixes counted once. "
        "On a CPU updates use at most 4,096, which is as fast and needs less memory.",
        unit="tokens",
        ge=64,
        le=10_000_000,
    )
    packing: bool = setting(
        False,
        "Concatenate the rows of a micro-batch so that only attention pads them: the same result up to rounding, with "
        "less work where lengths differ much.",
    )
    prefix_sharing: bool = setting(
        True,
        "Compute common prefixes of the rows of a micro-batch (a group's prompt, an environment's instruction) once: "
        "the same result up to rounding, with less work and no padding. Architectures whose attention cannot be split "
        "by row run without it.",
    )
    packed_attention: PackedAttention = setting(
        "sdpa",
        "Attention with packing or prefix_sharing: sdpa (PyTorch's kernel, a call for rows of similar length); flex (a "
        "single FlexAttention kernel for all rows, compiled in the first update; for a GPU: on a CPU it scores all "
        "pairs of a micro-batch's tokens, slowly).",
        added=True,
    )
    compile_layers: bool = setting(
        False,
        "Compile norms and MLPs of the decoder layers for the update: fewer, larger kernels on a GPU; the first update "
        "takes up to a minute longer.",
        added=True,
    )
    critic_warmup: int = setting(0, "First iterations that train only the critic.", unit="iterations", ge=0)
    master_weights: bool = setting(
        True,
        "With policy.dtype bfloat16: accumulate gradients and take steps in a float32 copy of the weights. Without it, "
        "steps below the resolution of bfloat16 are lost.",
    )
    gradient_checkpointing: bool = setting(
        False,
        "Store only the input of each layer and recompute activations in the backward pass: much less memory, about a "
        "third more time, the same gradients.",
    )


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
    targets: Annotated[TextList, TextRole.PLAIN] = setting(
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
