"""Models with known shapes and random weights, so that nothing is downloaded, and their operation counts.

Imports only torch and transformers: the environments of peers build the same models with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from transformers import PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

SHAPES: dict[str, dict[str, Any]] = {
    "tiny": {
        "vocab_size": 320,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,  # vLLM on CPUs needs heads of at least 32
        "num_key_value_heads": 1,
        "max_position_embeddings": 2048,
        "tie_word_embeddings": True,
    },
    "pocket": {
        "vocab_size": 576,
        "hidden_size": 128,
        "intermediate_size": 448,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 2048,
        "tie_word_embeddings": True,
    },
    "smollm2-135m": {
        "vocab_size": 49_152,
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "max_position_embeddings": 8192,
        "tie_word_embeddings": True,
    },
    "qwen2.5-0.5b": {
        "vocab_size": 151_936,
        "hidden_size": 896,
        "intermediate_size": 4864,
        "num_hidden_layers": 24,
        "num_attention_heads": 14,
        "num_key_value_heads": 2,
        "max_position_embeddings": 32_768,
        "tie_word_embeddings": True,
    },
    "qwen2.5-1.5b": {
        "vocab_size": 151_936,
        "hidden_size": 1536,
        "intermediate_size": 8960,
        "num_hidden_layers": 28,
        "num_attention_heads": 12,
        "num_key_value_heads": 2,
        "max_position_embeddings": 32_768,
        "tie_word_embeddings": True,
    },
}


def build(shape: str, seed: int = 0, device: str = "cpu", dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    """Build a model of this shape in fp32 on the CPU, so that the same seed gives the same weights everywhere.

    Raises:
        KeyError: no such shape.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen2ForCausalLM(build_config(shape))
    return model.to(device=device, dtype=dtype).eval()


def outline(shape: str) -> PreTrainedModel:
    """Build the same model on the meta device, for counting."""
    with torch.device("meta"):
        return Qwen2ForCausalLM(build_config(shape))


def build_config(shape: str) -> Qwen2Config:
    """Return the configuration of this shape. Raises KeyError if there is none."""
    ends = {"bos_token_id": None, "eos_token_id": 1, "pad_token_id": 0, "attention_dropout": 0.0}
    config = Qwen2Config(**SHAPES[shape], **ends)
    config._attn_implementation = "sdpa"
    return config


def step_flops(model: PreTrainedModel, lengths: Iterable[int], scored: int) -> float:
    """Return the number of floating-point operations that one forward and backward pass requires.

    6·N for each token with the N weights of the layers, 6·H·V for each token whose logits are needed, and for a
    sequence of s tokens 12·L·d·s²/2 for causal attention. Recomputation by
    gradient checkpointing, unused logits and padding are not counted.

    Args:
        model: a dense causal LM; N is its parameters without the embedding and the output layer.
        lengths: tokens of each sequence, padding left out.
        scored: tokens whose log-probabilities enter the loss.
    Source: Kaplan et al. 2020, table 1; Chowdhery et al. 2022 (PaLM), appendix B, with the causal half only.
    """
    config = model.config.get_text_config()
    lengths = list(lengths)
    head = model.get_output_embeddings().weight
    ends = {id(head), id(model.get_input_embeddings().weight)}
    body = sum(weight.numel() for weight in model.parameters() if id(weight) not in ends)
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    attention = 6 * config.num_hidden_layers * config.num_attention_heads * width * sum(size * size for size in lengths)
    return float(6 * body * sum(lengths) + 6 * head.numel() * scored + attention)
