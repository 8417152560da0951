"""LoRA adapters inside a model's layers: switched off for the reference, merged for export.

Layers are replaced in place, so that sampler, learner and critic keep using the same model object.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import peft
import torch
from peft.tuners.lora import LoraLayer
from peft.tuners.lora.layer import ParamWrapper
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import PreTrainedModel

from trainer.config.run import LoraConfig
from trainer.policy.critic import Critic
from trainer.policy.load import ModelError
from trainer.seeds import Purpose, derive

_NAME = "default"  # peft's name for a single adapter


def attach_adapters(model: PreTrainedModel, settings: LoraConfig, seed: int) -> None:
    """Attach new adapters to the model and freeze all other weights; its outputs do not change until they are trained.

    All linear layers get one. The global random generator is left unchanged.

    Raises:
        ModelError: peft cannot put adapters into the model.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            config = _peft_config(settings)
            config.exclude_modules = _more_than_linear(model) or None
            with warnings.catch_warnings():
                # peft matches the patterns against module names only, but also applies them to fused experts
                warnings.filterwarnings("ignore", message="The following (rank|alpha)_pattern keys did not match")
                peft.inject_adapter_in_model(config, model)
        except ValueError as error:
            raise ModelError(f"lora: adapters cannot be put into this model: {error}") from error
    model.eval()  # new layers are in training mode
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        if "lora_" not in name:
            parameter.requires_grad_(False)
        elif parameter.dtype in (torch.bfloat16, torch.float16):
            parameter.data = parameter.data.float()  # small steps would be lost in a rounded adapter


def attach_all(policy: PreTrainedModel, critic: Critic | None, settings: LoraConfig, seed: int) -> None:
    """Attach adapters to the policy and to the critic's backbone; `seed` is the run's seed."""
    attach_adapters(policy, settings, derive(seed, Purpose.ADAPTER))
    if critic is not None:
        critic_seed = derive(seed, Purpose.ADAPTER, Purpose.CRITIC)
        attach_adapters(cast(PreTrainedModel, critic.backbone), settings, critic_seed)


def _more_than_linear(model: nn.Module) -> list[str]:
    """Return linear layers that compute something else as well, to which an adapter's output cannot be added.

    An example is the router of Phi 3.5 MoE.
    """
    return [
        name
        for name, layer in model.named_modules()
        if isinstance(layer, nn.Linear) and type(layer).forward is not nn.Linear.forward
    ]


def _peft_config(settings: LoraConfig) -> peft.LoraConfig:
    return peft.LoraConfig(r=settings.rank, lora_alpha=settings.alpha, lora_dropout=0.0, target_modules="all-linear")


def layers(model: nn.Module) -> dict[str, LoraLayer]:
    """Return the layers with adapters by name; empty for a model without adapters."""
    return {name: module for name, module in model.named_modules() if isinstance(module, LoraLayer)}


def trainable(model: nn.Module) -> list[nn.Parameter]:
    """Return the trainable parameters: all, or with adapters only the adapters' parameters (and the critic's head)."""
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


@contextmanager
def adapters_disabled(model: nn.Module) -> Iterator[None]:
    """Switch the adapters off inside the block, which restores the model before training."""
    adapted = layers(model).values()
    for layer in adapted:
        layer.enable_adapters(False)
    try:
        yield
    finally:
        for layer in adapted:
            layer.enable_adapters(True)


def state(model: nn.Module) -> dict[str, Tensor]:
    """Return the trained parameters by name, which a checkpoint stores in addition to the base."""
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters() if parameter.requires_grad}


def load_state(model: nn.Module, saved: dict[str, Tensor]) -> None:
    """Load the result of `state`. Raises ModelError if it belongs to another model or other LoRA settings."""
    trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    if {name: value.shape for name, value in trained.items()} != {name: value.shape for name, value in saved.items()}:
        raise ModelError(
            "lora: the checkpoint's adapters do not fit: lora.rank and policy.model must stay as they were when the "
            "run began"
        )
    with torch.no_grad():
        for name, parameter in trained.items():
            parameter.copy_(saved[name])


@torch.no_grad()
def merged(model: nn.Module) -> dict[str, Tensor]:
    """Return the weights of an equivalent model without adapters, under their original names.

    The base itself does not change: adding and subtracting the adapters would not restore it exactly.
    """
    adapted = layers(model)
    weights = {name: weight for name, weight in model.state_dict().items() if ".lora_" not in name}
    for name, layer in adapted.items():
        key = _adapted_weight(name, layer)
        base = weights[key]
        delta: Tensor = cast(Any, layer).get_delta_weight(_NAME)
        weights[key] = (base.float() + delta.float()).to(base.dtype)
    return {_base_name(name): weight for name, weight in weights.items()}


def _adapted_weight(name: str, layer: LoraLayer) -> str:
    """Return the name of the weight that a layer's adapter changes.

    Experts of a mixture contain several weights in one module: each has a wrapper, and wrappers are nested.
    """
    if not isinstance(layer, ParamWrapper):
        return f"{name}.base_layer.weight"
    path, inner = f"{name}.base_layer", layer.base_layer
    while isinstance(inner, ParamWrapper):
        path, inner = f"{path}.base_layer", inner.base_layer
    return f"{path}.{layer.parameter_name}"


def _base_name(name: str) -> str:
    """Return the original name of a weight or a layer."""
    return ".".join(part for part in name.split(".") if part != "base_layer")


def save_adapter(model: PreTrainedModel, settings: LoraConfig, base: str, folder: Path) -> None:
    """Write only the adapter, in the format of `peft.PeftModel.from_pretrained(base model, folder)`."""
    folder.mkdir(parents=True, exist_ok=True)
    config = _peft_config(settings)
    config.base_model_name_or_path, config.task_type, config.inference_mode = base, peft.TaskType.CAUSAL_LM, True
    experts = {name: layer for name, layer in layers(model).items() if isinstance(layer, ParamWrapper)}
    config.target_modules = sorted({name.rpartition(".")[2] for name in layers(model) if name not in experts})
    if experts:
        _name_expert_weights(config, experts)
    config.save_pretrained(str(folder))
    tensors = {
        f"base_model.model.{name.replace(f'.{_NAME}.', '.')}": value.cpu().contiguous()
        for name, value in state(model).items()
    }
    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})


def _name_expert_weights(config: peft.LoraConfig, experts: Mapping[str, ParamWrapper]) -> None:
    """Set the names of the experts' adapted weights in the configuration; two projections in one double the rank."""
    config.target_parameters = sorted(
        {f"{_base_name(name).rpartition('.')[2]}.{layer.parameter_name}" for name, layer in experts.items()}
    )
    patterns = {rf".*\.{re.escape(layer.parameter_name)}": layer for layer in experts.values()}
    ranks = {pattern: layer.r[_NAME] for pattern, layer in patterns.items() if layer.r[_NAME] != config.r}
    alphas = {pattern: layer.lora_alpha[_NAME] for pattern, layer in patterns.items()}
    config.rank_pattern = (config.rank_pattern or {}) | ranks
    config.alpha_pattern = (config.alpha_pattern or {}) | {
        pattern: alpha for pattern, alpha in alphas.items() if alpha != config.lora_alpha
    }
