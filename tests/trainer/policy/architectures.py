"""Tiny random checkpoints of common architectures, and what is expected of each.

The table of docs/models.md says the same; test_architectures.py compares them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

WINDOW = 16
SIZES: Mapping[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "bos_token_id": None,
    "pad_token_id": 0,
    "eos_token_id": 1,
}
ALTERNATING = {"sliding_window": WINDOW, "layer_types": ["sliding_attention", "full_attention"]}
HEAD = {"head_dim": 8}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}


@dataclass(frozen=True)
class Architecture:
    """An architecture as the table of the documentation names it.

    Attributes:
        config: class of its configuration in transformers.
        settings: of the configuration, besides SIZES.
        refused: beginning of the reason why it is no policy; empty where it can be trained.
        packing: whether rows are computed without padding, and shared prefixes once.
        lora: whether adapters can be trained and merged.
    """

    name: str
    config: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    refused: str = ""
    packing: bool = True
    lora: bool = True

    @property
    def config_class(self) -> Callable[..., Any]:
        made: Callable[..., Any] = getattr(transformers, self.config)
        return made

    def save(self, folder: Path, tokenizer: PreTrainedTokenizerFast) -> Path:
        """A checkpoint with random weights; the same at each call."""
        config = self.config_class(vocab_size=len(tokenizer), **{**SIZES, **self.settings})
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = AutoModelForCausalLM.from_config(config)
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return folder


ARCHITECTURES = (
    Architecture("Qwen2, Qwen2.5", "Qwen2Config"),
    Architecture(
        "Qwen2 with a window",
        "Qwen2Config",
        {"use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 1},
        packing=False,
    ),
    Architecture("Qwen3", "Qwen3Config", HEAD),
    Architecture("Qwen3-MoE", "Qwen3MoeConfig", HEAD | EXPERTS),
    Architecture("Llama 2, 3", "LlamaConfig"),
    Architecture("SmolLM3", "SmolLM3Config"),
    Architecture("OLMo 2", "Olmo2Config"),
    Architecture("Phi 3, 3.5, 4", "Phi3Config"),
    Architecture("Mistral 0.2, 0.3", "MistralConfig", {"sliding_window": None}),
    Architecture("Mistral 0.1 (window)", "MistralConfig", {"sliding_window": WINDOW}, packing=False),
    Architecture("Ministral (window)", "MinistralConfig", HEAD | ALTERNATING, packing=False),
    Architecture("Mixtral", "MixtralConfig", {"num_local_experts": 4, "num_experts_per_tok": 2}),
    Architecture("Gemma 1", "GemmaConfig", HEAD),
    Architecture(
        "Gemma 3 (window)", "Gemma3TextConfig", HEAD | ALTERNATING | {"query_pre_attn_scalar": 8}, packing=False
    ),
    Architecture("Granite 3", "GraniteConfig", {"logits_scaling": 8.0, "embedding_multiplier": 12.0}),
    Architecture("Cohere (Command R)", "CohereConfig", {"logit_scale": 0.0625}),
    Architecture("Cohere 2 (window)", "Cohere2Config", ALTERNATING | {"logit_scale": 0.25}, packing=False),
    Architecture("Gemma 2", "Gemma2Config", HEAD | ALTERNATING, refused="which soft-caps its attention scores"),
    Architecture(
        "gpt-oss",
        "GptOssConfig",
        HEAD | ALTERNATING | {"num_local_experts": 4, "num_experts_per_tok": 2},
        refused="whose attention is more than scaled dot products",
    ),
    Architecture(
        "LFM2", "Lfm2Config", {"layer_types": ["conv", "full_attention"]}, refused="has layers of the kind conv"
    ),
)
