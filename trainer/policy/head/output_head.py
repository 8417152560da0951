"""Output layer of a causal LM: hidden states to logits, with the constant factor of some architectures."""

from __future__ import annotations

from typing import Any, cast

from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel


class ScaledHead(nn.Module):
    """An output layer of an architecture that multiplies logits by a constant (Granite, Cohere)."""

    def __init__(self, layer: nn.Module, scale: float) -> None:
        super().__init__()
        self.layer, self.scale = layer, scale

    def forward(self, hidden: Tensor) -> Tensor:
        """Map (…, H) hidden states to (…, V) logits in fp32."""
        return cast(Tensor, self.layer(hidden)).float() * self.scale


def output_head(model: PreTrainedModel) -> nn.Module:
    """Return the layer that maps the last hidden state to logits."""
    layer = cast(nn.Module, cast(Any, model).get_output_embeddings())
    scale = logit_scale(model.config.get_text_config())
    return layer if scale == 1 else ScaledHead(layer, scale)


def logit_scale(config: PretrainedConfig) -> float:
    """Return the factor of the logits in the architecture's settings; 1 for most."""
    if divisor := getattr(config, "logits_scaling", None):  # Granite
        return 1 / float(divisor)
    return float(getattr(config, "logit_scale", None) or 1.0)  # Cohere
