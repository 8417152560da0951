"""What a checkpoint holds of a learner besides the policy's folder, and how it is taken up. Files are checkpoints.py's.

Whole tensors, whatever the number of processes and however they shared the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from trainer.distributed import fsdp
from trainer.learner import optimizers
from trainer.policy import lora_adapters
from trainer.policy.load import ModelError

if TYPE_CHECKING:
    from trainer.learner.learner import Learner


def learner_state(learner: Learner) -> dict[str, Any]:
    """Critic and optimisers, float32 copies of half-precision weights; with adapters these instead of whole weights."""
    critic, weights = learner.critic, learner.critic_weights
    whole = lora_adapters.state if learner.adapted else nn.Module.state_dict
    found = {
        "optimizer": learner.config.optimizer.name,
        "policy_optimizer": learner.policy_optimizer.state_dict(),
        "policy_masters": learner.policy_weights.state(),
        "adapters": lora_adapters.state(learner.policy.model) if learner.adapted else None,
        "critic": whole(critic) if critic else None,
        "critic_optimizer": learner.critic_optimizer.state_dict() if learner.critic_optimizer else None,
        "critic_masters": weights.state() if weights else None,
    }
    return fsdp.whole_state(found) if learner.team.sharded else found


def load_learner_state(learner: Learner, saved: dict[str, Any]) -> list[str]:
    """Take up what `state` gave. Returns what people should be told about it.

    Raises:
        ModelError: it was saved with other LoRA settings.
    """
    if learner.adapted:
        lora_adapters.load_state(learner.policy.model, saved.get("adapters") or {})
    elif saved.get("adapters"):
        raise ModelError("the checkpoint was trained with adapters: lora.rank must stay what it was")
    learner.policy_weights.load_state(saved.get("policy_masters"))
    part = fsdp.shard_optimizer_state if learner.team.sharded else _as_it_is
    name = learner.config.optimizer.name
    goes_on = optimizers.has_same_state(name, saved)
    if goes_on:
        optimizers.load_optimizer_state(learner.policy_optimizer, saved["policy_optimizer"], part)
    if learner.critic is not None and learner.critic_weights is not None and learner.critic_optimizer is not None:
        if learner.adapted:
            lora_adapters.load_state(learner.critic, saved["critic"])
        else:
            fsdp.load_module(learner.critic, saved["critic"])
        learner.critic_weights.load_state(saved.get("critic_masters"))
        if goes_on:
            optimizers.load_optimizer_state(learner.critic_optimizer, saved["critic_optimizer"], part)
    if goes_on:
        return []
    was = saved.get("optimizer", "adamw")
    return [f"The checkpoint was made with optimizer.name {was}; {name} begins without its moments."]


def _as_it_is(saved: dict[str, Any], parameters: Sequence[Tensor]) -> dict[str, Any]:
    return saved
