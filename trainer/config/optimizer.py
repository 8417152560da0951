"""Optimiser and LoRA sections of RunConfig: the trained weights, and their training."""

from __future__ import annotations

from typing import Literal

from trainer.config.algorithm import without_critic
from trainer.config.base import Section, setting
from trainer.config.conditions import EVALUATES, NOTHING_TRAINED, ONLY_TRAINING, TRAINS_NOT, NoEffect, is_zero

OptimizerName = Literal["adamw", "adamw_fused", "adamw_8bit", "adafactor", "sgd", "muon"]
LrSchedule = Literal["constant", "linear", "cosine", "cosine_to_fifth"]


class OptimizerConfig(Section):
    """Optimiser steps of policy and critic: learning rates, batches, memory savings."""

    no_effect = (
        NoEffect(
            (TRAINS_NOT,),
            ONLY_TRAINING,
            ("policy_lr", "critic_lr", "critic_warmup", "mini_batch_trajectories"),
        ),
        NoEffect((EVALUATES,), NOTHING_TRAINED),
        NoEffect(
            (without_critic,), "the estimator “{algorithm.estimator}” has no critic", ("critic_lr", "critic_warmup")
        ),
    )

    name: OptimizerName = setting(
        "adamw",
        "adamw (one kernel on a GPU); adamw_fused (one kernel on every device); adamw_8bit (moments in a quarter of "
        "the memory, needs bitsandbytes); adafactor (almost no memory); sgd (with momentum 0.9); muon (matrices by "
        "orthogonalised momentum, the rest by adamw).",
        source="paper: Adam",
    )
    policy_lr: float = setting(1e-4, "Learning rate of the policy.", source="RAGEN code: 1e-6", gt=0, le=1)
    critic_lr: float = setting(1e-3, "Learning rate of the critic.", source="RAGEN code: 1e-5", gt=0, le=1)
    lr_schedule: LrSchedule = setting(
        "constant",
        "Schedule of both learning rates over the run's iterations, after the warm-up: constant, a linear or cosine "
        "decay to 0, or a cosine decay to a fifth of the rate (cosine_to_fifth).",
        source="RAGEN code: constant",
        added=True,
    )
    lr_warmup: int = setting(
        0, "First iterations over which the learning rates rise linearly.", unit="iterations", ge=0, added=True
    )
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
    critic_warmup: int = setting(0, "First iterations that train only the critic.", unit="iterations", ge=0)
    gradient_checkpointing: bool = setting(
        False,
        "Store only the input of each layer and recompute activations in the backward pass: much less memory, about a "
        "third more time, the same gradients.",
    )


class LoraConfig(Section):
    """Training of small adapters (LoRA) of all linear layers instead of all weights: about half the memory."""

    no_effect = (
        NoEffect((EVALUATES,), NOTHING_TRAINED),
        NoEffect((is_zero("lora.rank"),), "lora.rank is 0: no adapters", except_for=("rank",)),
    )

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
