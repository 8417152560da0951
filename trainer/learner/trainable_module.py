"""A module in training, with the weights to optimise and their optimiser."""

from __future__ import annotations

import math
from typing import Any

from torch import nn
from transformers import PreTrainedModel

from trainer.config.optimizer import OptimizerConfig
from trainer.config.update_variants import update_variants
from trainer.distributed import fsdp
from trainer.distributed.group import ProcessGroup
from trainer.learner import optimizers
from trainer.policy import compiled_layers, gradient_checkpointing, lora_adapters
from trainer.policy.critic import Critic
from trainer.policy.forward import PolicyForward
from trainer.policy.master_weights import MasterWeights, StepWeights


class TrainableModule:
    """Policy or critic with its optimiser.

    Args:
        module: computes losses.
        weights: weights for the optimiser: the module's parameters, float32 copies of them, or shards.
        lr: learning rate.
    """

    def __init__(self, module: nn.Module, weights: StepWeights, settings: OptimizerConfig, lr: float) -> None:
        self.module, self.weights, self.settings = module, weights, settings
        plain = optimizers.is_not_a_matrix(module)
        kinds = [plain[parameter] for parameter in lora_adapters.trainable(module)]
        self.optimizer = optimizers.make_optimizer(settings, lr, weights.parameters, kinds)
        self.schedule(1.0)

    def zero_grad(self) -> None:
        """Drop accumulated gradients."""
        self.optimizer.zero_grad(set_to_none=True)

    def schedule(self, factor: float) -> float:
        """Use this share of the learning rate until the next call. Returns the rate.

        The whole rate is kept where torch's schedulers keep it, which loading a checkpoint does not replace.
        """
        for group in self.optimizer.param_groups:
            group["lr"] = group.setdefault("initial_lr", group["lr"]) * factor
        return float(self.optimizer.param_groups[0]["lr"])

    def step(self, group: ProcessGroup, metric: str, sums: dict[str, float]) -> None:
        """Sum the gradients over processes, clip and step; skip the step if their norm is not finite.

        Args:
            metric: name of the gradient norm.
            sums: metrics of the step; the norm and the counts of steps and skipped steps are added.
        """
        group.sum_gradients(self.weights.parameters)
        norm = self.weights.clip(self.settings.max_grad_norm)
        if math.isfinite(norm):
            self.optimizer.step()
            self.weights.copy_to_model()
            sums[metric] = norm
            sums["update/steps"] = 1.0
        else:
            sums["update/skipped"] = sums.get("update/skipped", 0.0) + 1.0
        self.zero_grad()

    def load_optimizer(self, state: dict[str, Any], *, sharded: bool) -> None:
        """Load the optimiser's moments, as whole tensors."""
        shard = fsdp.shard_optimizer_state if sharded else optimizers.unchanged
        optimizers.load_optimizer_state(self.optimizer, state, shard)


def _prepare_layers(module: nn.Module, settings: OptimizerConfig) -> None:
    if update_variants().compile_layers:
        compiled_layers.compile_layers(module)
    if settings.gradient_checkpointing:
        gradient_checkpointing.checkpoint_layers(module)


def trainable_policy(model: PreTrainedModel, settings: OptimizerConfig, group: ProcessGroup) -> TrainableModule:
    """Return the policy in training; with sharded weights, a sharded copy of the model that samples."""
    _prepare_layers(model, settings)
    if group.sharded:
        network, shards = fsdp.policy(model, group.size, masters=update_variants().master_weights)
        return TrainableModule(network, shards, settings, settings.policy_lr)
    masters = MasterWeights(lora_adapters.trainable(model), enabled=update_variants().master_weights)
    return TrainableModule(PolicyForward(model), masters, settings, settings.policy_lr)


def trainable_critic(critic: Critic, settings: OptimizerConfig, group: ProcessGroup) -> TrainableModule:
    """Return the critic in training; with sharded weights, it is sharded in place."""
    _prepare_layers(critic, settings)
    if group.sharded:
        shards = fsdp.critic(critic, group.size, masters=update_variants().master_weights)
        return TrainableModule(critic, shards, settings, settings.critic_lr)
    masters = MasterWeights(lora_adapters.trainable(critic), enabled=update_variants().master_weights)
    return TrainableModule(critic, masters, settings, settings.critic_lr)
