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

DOCS = Path(__file__).parents[3] / "docs" / "models.md"
COLUMNS = ("float32", "bf16", "LoRA", "checkpointing", "packing", "vLLM", "remarks")
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
LOCAL_EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}
ROUTED_EXPERTS = {
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
    "first_k_dense_replace": 1,
    "n_group": 1,
    "topk_group": 1,
}
LATENT_ATTENTION = {
    "num_key_value_heads": 4,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
}
GEMMA_4 = {
    "global_head_dim": 8,
    "hidden_size_per_layer_input": 8,
    "vocab_size_per_layer_input": 512,
    "num_kv_shared_layers": 0,
}
LINEAR_ATTENTION = {
    "layer_types": ["linear_attention", "full_attention"],
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
}


@dataclass(frozen=True)
class Architecture:
    """An architecture as the table of the documentation names it.

    Attributes:
        config: class of its configuration in transformers.
        settings: of the configuration, besides SIZES.
        refused: beginning of the reason why it is no policy; empty where it can be trained.
        packing: whether rows are computed without padding, and shared prefixes once.
        sized: whether trainer.policy.shapes counts its parameters to within 1 %.
    """

    name: str
    config: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    refused: str = ""
    packing: bool = True
    sized: bool = True

    @property
    def loads(self) -> bool:
        """Whether the learner takes it: if it is refused, then for the sampler of engine.name=transformers."""
        return not self.refused or self.refused.startswith("has layers of the kind")

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


KINDS = {"Llama 2, 3", "Qwen2, Qwen2.5", "OLMo 3 (window)", "Qwen3-MoE", "DeepSeek V3, R1"}
"""One architecture of each kind: dense, tied embeddings, window, mixture of experts, latent attention with experts."""


def documented() -> dict[str, list[str]]:
    """The rows of the documentation's table: name → its other cells, in the order of COLUMNS."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in DOCS.read_text().splitlines() if "|" in line
    ]
    return {row[0]: row[1:] for row in rows if len(row) == 1 + len(COLUMNS)}


ARCHITECTURES = (
    Architecture("Qwen2, Qwen2.5", "Qwen2Config"),
    Architecture(
        "Qwen2 with a window",
        "Qwen2Config",
        {"use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 1},
        packing=False,
    ),
    Architecture("Qwen2-MoE", "Qwen2MoeConfig", EXPERTS | {"shared_expert_intermediate_size": 16}),
    Architecture("Qwen3", "Qwen3Config", HEAD),
    Architecture("Qwen3-MoE", "Qwen3MoeConfig", HEAD | EXPERTS),
    Architecture("Llama 2, 3", "LlamaConfig"),
    Architecture("SmolLM3", "SmolLM3Config"),
    Architecture("OLMo 2", "Olmo2Config"),
    Architecture("OLMo 3 (window)", "Olmo3Config", ALTERNATING, packing=False),
    Architecture("OLMoE", "OlmoeConfig", {"num_experts": 4, "num_experts_per_tok": 2}),
    Architecture("Phi 1, 1.5, 2", "PhiConfig"),
    Architecture("Phi 3, 3.5, 4", "Phi3Config"),
    Architecture("Phi 3.5 MoE", "PhimoeConfig", LOCAL_EXPERTS | {"sliding_window": None}),
    Architecture("Mistral 0.2, 0.3", "MistralConfig", {"sliding_window": None}),
    Architecture("Mistral 0.1 (window)", "MistralConfig", {"sliding_window": WINDOW}, packing=False),
    Architecture("Ministral (window)", "MinistralConfig", HEAD | ALTERNATING, packing=False),
    Architecture("Ministral 3", "Ministral3Config", HEAD),
    Architecture("Mixtral", "MixtralConfig", LOCAL_EXPERTS),
    Architecture("Gemma 1", "GemmaConfig", HEAD),
    Architecture(
        "Gemma 3 (window)", "Gemma3TextConfig", HEAD | ALTERNATING | {"query_pre_attn_scalar": 8}, packing=False
    ),
    Architecture("Granite 3", "GraniteConfig", {"logits_scaling": 8.0, "embedding_multiplier": 12.0}),
    Architecture("Granite 3 MoE", "GraniteMoeConfig", LOCAL_EXPERTS),
    Architecture("Cohere (Command R)", "CohereConfig", {"logit_scale": 0.0625}),
    Architecture("Cohere 2 (window)", "Cohere2Config", ALTERNATING | {"logit_scale": 0.25}, packing=False),
    Architecture("GLM-4 0414", "Glm4Config", HEAD),
    Architecture("GLM-4.5", "Glm4MoeConfig", HEAD | ROUTED_EXPERTS),
    Architecture("DeepSeek V2", "DeepseekV2Config", LATENT_ATTENTION | ROUTED_EXPERTS, packing=False),
    Architecture("DeepSeek V3, R1", "DeepseekV3Config", LATENT_ATTENTION | ROUTED_EXPERTS, packing=False),
    Architecture("MiniMax M2", "MiniMaxM2Config", HEAD | LOCAL_EXPERTS | {"rotary_dim": 8}),
    Architecture("ERNIE 4.5", "Ernie4_5Config", HEAD),
    Architecture("Seed-OSS", "SeedOssConfig", HEAD),
    Architecture("Hunyuan (dense)", "HunYuanDenseV1Config", HEAD),
    Architecture("EXAONE 4 (window)", "Exaone4Config", ALTERNATING | {"sliding_window_pattern": 2}, packing=False),
    Architecture("Nemotron, Minitron", "NemotronConfig", packing=False),
    Architecture("StableLM 2", "StableLmConfig", packing=False),
    Architecture("Starcoder2", "Starcoder2Config", {"sliding_window": None}),
    Architecture("GPT-NeoX (Pythia)", "GPTNeoXConfig"),
    Architecture("GPT-2", "GPT2Config"),
    Architecture(
        "Gemma 4 (window)",
        "Gemma4TextConfig",
        HEAD | ALTERNATING | GEMMA_4,
        packing=False,
        sized=False,
    ),
    Architecture("Gemma 2", "Gemma2Config", HEAD | ALTERNATING, refused="which soft-caps its attention scores"),
    Architecture(
        "gpt-oss",
        "GptOssConfig",
        HEAD | ALTERNATING | LOCAL_EXPERTS,
        refused="whose attention is more than scaled dot products",
    ),
    Architecture(
        "Llama 4",
        "Llama4TextConfig",
        HEAD | LOCAL_EXPERTS | {"intermediate_size_mlp": 48, "attention_chunk_size": WINDOW},
        refused="whose decoder is not separate from its output layer",
    ),
    Architecture(
        "LFM2",
        "Lfm2Config",
        {"layer_types": ["conv", "full_attention"]},
        refused="has layers of the kind conv",
    ),
    Architecture(
        "Qwen3-Next",
        "Qwen3NextConfig",
        HEAD | EXPERTS | LINEAR_ATTENTION | {"shared_expert_intermediate_size": 16},
        refused="has layers of the kind linear_attention",
    ),
    Architecture(
        "Qwen3.5", "Qwen3_5TextConfig", HEAD | LINEAR_ATTENTION, refused="has layers of the kind linear_attention"
    ),
    Architecture(
        "Granite 4 (hybrid)",
        "GraniteMoeHybridConfig",
        LOCAL_EXPERTS
        | {"layer_types": ["mamba", "attention"], "mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 8},
        refused="has layers of the kind linear_attention",
    ),
    Architecture(
        "Mamba 2",
        "Mamba2Config",
        {"num_heads": 8, "head_dim": 8, "n_groups": 1, "state_size": 8},
        refused="whose attention is more than scaled dot products",
    ),
)
