"""Optimisers by name, their learning rates, and loading of their state."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from trainer.config.optimizer import OptimizerConfig
from trainer.policy.load import ModelError

SAME_STATE = {"adamw_fused": "adamw"}
"""Optimisers that have the same state as another one."""
BETAS = (0.9, 0.999)
"""β₁, which is also the momentum of sgd, and β₂. Source: appendix B.2 of the paper."""


class CombinedOptimizer:
    """Two optimisers for disjoint parameters that step together and are saved as one."""

    def __init__(self, first: torch.optim.Optimizer, second: torch.optim.Optimizer) -> None:
        self.parts = (first, second)

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return [group for part in self.parts for group in part.param_groups]

    def step(self) -> None:
        for part in self.parts:
            part.step()

    def zero_grad(self, set_to_none: bool = True) -> None:
        for part in self.parts:
            part.zero_grad(set_to_none)

    def state_dict(self) -> dict[str, Any]:
        return {"parts": [part.state_dict() for part in self.parts]}


Optimizer = torch.optim.Optimizer | CombinedOptimizer
Shard = Callable[[dict[str, Any], Sequence[Tensor]], dict[str, Any]]


def unchanged(state: dict[str, Any], parameters: Sequence[Tensor]) -> dict[str, Any]:
    """Return the state unchanged, for optimisers whose state is not sharded."""
    return state


def make_optimizer(
    settings: OptimizerConfig, lr: float, parameters: Sequence[nn.Parameter], plain: Sequence[bool] = ()
) -> Optimizer:
    """Create the optimiser that the settings name.

    Args:
        lr: learning rate.
        parameters: parameters in the optimiser's order.
        plain: whether each parameter is not a feature matrix (embeddings, output layers, norms): muon leaves these to
            adamw. Read for muon only.
    Raises:
        ModelError: a required library is not installed.
    """
    decay = settings.weight_decay
    match settings.name:
        case "adamw":
            on_gpu = all(parameter.is_cuda for parameter in parameters)  # one kernel instead of a dozen
            return torch.optim.AdamW(parameters, lr=lr, betas=BETAS, weight_decay=decay, fused=on_gpu or None)
        case "adamw_fused":
            return torch.optim.AdamW(parameters, lr=lr, betas=BETAS, weight_decay=decay, fused=True)
        case "adamw_8bit":
            optimizer: torch.optim.Optimizer = _bitsandbytes().AdamW8bit(
                parameters, lr=lr, betas=BETAS, weight_decay=decay
            )
            return optimizer
        case "adafactor":
            return torch.optim.Adafactor(parameters, lr=lr, weight_decay=decay)
        case "sgd":
            return torch.optim.SGD(parameters, lr=lr, momentum=BETAS[0], weight_decay=decay)
        case "muon":
            return _muon(settings, lr, parameters, plain)


def lr_factor(settings: OptimizerConfig, iteration: int, iterations: int) -> float:
    """Return the share of the learning rates that an iteration (from 1) uses, 0 to 1.

    The warm-up reaches 1 after `lr_warmup` iterations, and the decay would reach its end after the last iteration.
    """
    warmup = settings.lr_warmup
    if iteration <= warmup:
        return iteration / (warmup + 1)
    progress = min(1.0, (iteration - warmup - 1) / max(1, iterations - warmup))
    match settings.lr_schedule:
        case "constant":
            return 1.0
        case "linear":
            remaining = 1 - progress
        case "cosine" | "cosine_to_fifth":
            remaining = (1 + math.cos(math.pi * progress)) / 2
    end = 0.2 if settings.lr_schedule == "cosine_to_fifth" else 0.0
    return end + (1 - end) * remaining


def _muon(settings: OptimizerConfig, lr: float, parameters: Sequence[nn.Parameter], plain: Sequence[bool]) -> Optimizer:
    """Muon with step lengths scaled to AdamW's, so that learning rates mean the same for both."""
    sorted_ = list(zip(parameters, plain, strict=True))
    matrices = [parameter for parameter, is_plain in sorted_ if not is_plain]
    rest = [parameter for parameter, is_plain in sorted_ if is_plain]
    adamw = torch.optim.AdamW(
        rest or [nn.Parameter(torch.zeros(0))],
        lr=lr,
        betas=BETAS,
        weight_decay=settings.weight_decay,
    )
    if not matrices:
        return adamw
    muon = torch.optim.Muon(matrices, lr=lr, weight_decay=settings.weight_decay, adjust_lr_fn="match_rms_adamw")
    return CombinedOptimizer(muon, adamw)


def is_not_a_matrix(module: nn.Module) -> dict[nn.Parameter, bool]:
    """Map each parameter of a module to False if it is the matrix of an inner layer, for which muon is made."""
    plain = {parameter: parameter.ndim != 2 for parameter in module.parameters()}
    models = [part for part in module.modules() if isinstance(part, PreTrainedModel)]
    outputs = [head for model in models if (head := cast(Any, model).get_output_embeddings()) is not None]
    for part in module.modules():
        scalar = isinstance(part, nn.Linear) and part.out_features == 1
        if isinstance(part, nn.Embedding) or any(part is output for output in outputs) or scalar:
            plain[cast(nn.Parameter, part.weight)] = True
    return plain


def _bitsandbytes() -> Any:
    try:
        return importlib.import_module("bitsandbytes.optim")
    except ImportError as error:
        raise ModelError(
            "optimizer.name is adamw_8bit, which needs a library that is not installed: pip install bitsandbytes, or "
            "choose adamw or adafactor"
        ) from error


def load_optimizer_state(optimizer: Optimizer, state: dict[str, Any], shard: Shard = unchanged) -> None:
    """Load an optimiser's moments, but keep its settings: they may change between saving and resuming.

    Args:
        shard: converts the saved state of whole parameters into this process's shards.
    """
    if isinstance(optimizer, CombinedOptimizer):
        for part, saved in zip(optimizer.parts, state["parts"], strict=True):
            load_optimizer_state(part, saved, shard)
        return
    settings = [{name: value for name, value in group.items() if name != "params"} for group in optimizer.param_groups]
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    optimizer.load_state_dict(shard(state, parameters))
    for group, values in zip(optimizer.param_groups, settings, strict=True):
        group |= values


def has_same_state(name: str, saved: Mapping[str, Any]) -> bool:
    """True if a learner's state has moments for the optimiser of this name; a state without a name is adamw's."""
    saved_name = str(saved.get("optimizer", "adamw"))
    return SAME_STATE.get(name, name) == SAME_STATE.get(saved_name, saved_name)
