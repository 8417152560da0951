"""The section of RunConfig about the update's steps: optimiser, batches, what is kept in memory. Only settings."""

from __future__ import annotations

from typing import Literal

from trainer.config.base import Section, setting

OptimizerName = Literal["adamw", "adamw_fused", "adamw_8bit", "adafactor", "sgd", "muon"]


class OptimizerConfig(Section):
    """How policy and critic take their steps."""

    name: OptimizerName = setting(
        "adamw",
        "adamw; adamw_fused (the same in one kernel, quicker on a GPU); adamw_8bit (moments in a quarter of the "
        "memory, needs bitsandbytes); adafactor (next to no memory); sgd (with β₁ as momentum); muon (matrices by "
        "orthogonalised momentum, the rest by adamw).",
        source="paper: Adam",
    )
    policy_lr: float = setting(1e-4, "Learning rate of the policy.", source="paper: 1e-6 (0.5B)", gt=0, le=1)
    critic_lr: float = setting(1e-3, "Learning rate of the critic.", source="paper: 1e-5 (0.5B)", gt=0, le=1)
    beta1: float = setting(0.9, "Adam β₁.", source="paper: 0.9", ge=0, lt=1)
    beta2: float = setting(0.999, "Adam β₂.", source="paper: 0.999", ge=0, lt=1)
    weight_decay: float = setting(0.0, "Decoupled weight decay.", ge=0, le=1)
    max_grad_norm: float = setting(1.0, "Gradients are clipped to this norm.", gt=0)
    update_batch: int = setting(
        32, "E: trajectories per optimiser step.", unit="trajectories", source="paper: 32", gt=0, le=65_536
    )
    micro_batch_tokens: int = setting(
        16_384,
        "Most tokens in one forward pass, of each process: padding included, or what rows share counted once.",
        unit="tokens",
        ge=64,
        le=10_000_000,
    )
    packing: bool = setting(
        False,
        "Put the rows of a micro-batch end to end, so that only attention sees padding: the same numbers, but for the "
        "last bits, with less work where lengths differ much.",
    )
    shared_prompts: bool = setting(
        True,
        "Compute what the rows of a micro-batch begin with in common (a group's prompt, an environment's instruction) "
        "once for all of them: the same numbers, but for the last bits, with less work. Padding is left out, too. "
        "Architectures whose attention cannot be taken apart row by row go without.",
    )
    critic_warmup: int = setting(0, "First iterations that train only the critic.", unit="iterations", ge=0)
    master_weights: bool = setting(
        True,
        "With policy.dtype bfloat16: gradients are summed into, and steps are taken on, a float32 copy of the weights. "
        "Without it steps smaller than bfloat16 can tell are lost.",
    )
    gradient_checkpointing: bool = setting(
        False,
        "Keep only what enters each layer and compute the rest a second time on the way back: much less memory, about "
        "a third more time, the same gradients.",
    )
