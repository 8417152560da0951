"""FSDP2: sharding of modules, and conversion between sharded and whole tensors."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from trainer.policy.forward import PolicyForward

_HALF = (torch.bfloat16, torch.float16)


def split(module: nn.Module, size: int, *, masters: bool) -> bool:
    """Shard a module's parameters over all processes, layer by layer. Gradients are summed over processes.

    Args:
        size: number of processes.
        masters: keep shards of half-precision weights in float32; the module still computes in half precision.
    Returns:
        Whether the shards are such float32 copies.
    """
    first = next(module.parameters())
    raised = masters and first.dtype in _HALF
    policy = MixedPrecisionPolicy(param_dtype=first.dtype, reduce_dtype=torch.float32) if raised else None
    if raised:
        module.float()
    mesh = init_device_mesh(first.device.type, (size,))
    how = {"mesh": mesh, "mp_policy": policy or MixedPrecisionPolicy()}
    for layer in [part for part in module.modules() if isinstance(part, GradientCheckpointingLayer)]:
        fully_shard(layer, **how)  # type: ignore[call-overload]
    fully_shard(module, **how)  # type: ignore[call-overload]
    for part in module.modules():
        if isinstance(part, FSDPModule):
            part.set_gradient_divide_factor(1.0)
            part.set_force_sum_reduction_for_comms(True)
    return raised


class ShardedWeights:
    """Parameters of an optimiser under sharding: this process's shards. Same interface as `MasterWeights`.

    Args:
        module: the sharded module.
        whole: the whole parameters used for rollout and scoring, in the module's order; updated by `finish`.
        raised: whether the shards are float32 copies of half-precision weights, with more precision than `whole`.
    """

    def __init__(self, module: nn.Module, whole: Sequence[nn.Parameter], *, raised: bool) -> None:
        self.parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
        self.whole, self.raised = list(whole), raised

    def copy_to_model(self) -> None:
        """No-op: the module computes with the shards."""

    def clip(self, most: float) -> float:
        """Clip the summed gradients to this norm. Returns the norm before clipping."""
        norm = nn.utils.clip_grad_norm_(self.parameters, most)
        return float(gather(norm))

    @torch.no_grad()
    def finish(self) -> None:
        """Gather the shards into the whole parameters."""
        if self.whole:
            for parameter, part in zip(self.whole, self.parameters, strict=True):
                parameter.copy_(gather(part))

    def state(self) -> list[Tensor] | None:
        """Return whole float32 weights in order; None if the model's own weights are as precise."""
        return [gather(part).cpu() for part in self.parameters] if self.raised else None

    @torch.no_grad()
    def load_state(self, saved: Sequence[Tensor] | None) -> None:
        """Restore the result of `state`; without it the shards keep the module's weights."""
        if saved is None or not self.raised:
            return
        for part, value in zip(self.parameters, saved, strict=True):
            part.copy_(shard(value, part))


def policy(model: PreTrainedModel, size: int, *, masters: bool) -> tuple[nn.Module, ShardedWeights]:
    """Create a sharded copy of a policy for training; the model itself stays whole, for rollout and scoring."""
    network = PolicyForward(copy.deepcopy(model))
    raised = split(network, size, masters=masters)
    return network, ShardedWeights(network, list(model.parameters()), raised=raised)


def critic(module: nn.Module, size: int, *, masters: bool) -> ShardedWeights:
    """Shard a critic in place."""
    raised = split(module, size, masters=masters)
    return ShardedWeights(module, [], raised=raised)


def gather(value: Tensor) -> Tensor:
    """Gather a sharded tensor; a collective operation."""
    return value.full_tensor() if isinstance(value, DTensor) else value


def shard(value: Tensor, like: Tensor) -> Tensor:
    """Return this process's shard of a whole tensor, placed like another tensor of its shape."""
    if not isinstance(like, DTensor) or value.shape != like.shape:
        return value
    return distribute_tensor(value.detach().to(like.device), like.device_mesh, like.placements, src_data_rank=None)


def whole_state(state: Any) -> Any:
    """Gather every tensor of an optimiser's or module's state; sharded tensors are moved to the CPU."""
    if isinstance(state, DTensor):
        return state.full_tensor().cpu()
    if isinstance(state, dict):
        return {name: whole_state(value) for name, value in state.items()}
    return [whole_state(value) for value in state] if isinstance(state, list) else state


def shard_optimizer_state(state: dict[str, Any], parameters: Sequence[Tensor]) -> dict[str, Any]:
    """Shard the moments of an optimiser's whole state like its parameters.

    Args:
        parameters: the optimiser's parameters, in its order.
    """
    moments = {
        number: {
            name: shard(value, parameters[number]) if isinstance(value, Tensor) else value for name, value in of.items()
        }
        for number, of in state["state"].items()
    }
    return {**state, "state": moments}


@torch.no_grad()
def load_module(module: nn.Module, saved: dict[str, Tensor]) -> None:
    """Load whole tensors, as in `load_state_dict`, into a module that may be sharded."""
    for name, parameter in module.state_dict().items():
        parameter.copy_(shard(saved[name], parameter))
