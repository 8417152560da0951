"""Configurations of models that are often trained, so that their memory is known before a download.

Sizes are taken from their config.json; `trainer.policy.shapes.read` turns them into shapes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_QWEN, _QWEN_LARGE, _LLAMA, _GEMMA = 151_936, 152_064, 128_256, 262_144


def _config(
    kind: str, hidden: int, layers: int, heads: tuple[int, int, int], intermediate: int, vocabulary: int, *, tied: bool
) -> Mapping[str, Any]:
    """Build the size-related part of a config.json; `heads` are the numbers of queries and keys, and the head size."""
    return {
        "model_type": kind,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads[0],
        "num_key_value_heads": heads[1],
        "head_dim": heads[2],
        "intermediate_size": intermediate,
        "vocab_size": vocabulary,
        "tie_word_embeddings": tied,
        "max_position_embeddings": 32_768,
    }


KNOWN_CONFIGS: dict[str, Mapping[str, Any]] = {
    "Qwen2.5-0.5B": _config("qwen2", 896, 24, (14, 2, 64), 4864, _QWEN, tied=True),
    "Qwen2.5-1.5B": _config("qwen2", 1536, 28, (12, 2, 128), 8960, _QWEN, tied=True),
    "Qwen2.5-3B": _config("qwen2", 2048, 36, (16, 2, 128), 11_008, _QWEN, tied=True),
    "Qwen2.5-7B": _config("qwen2", 3584, 28, (28, 4, 128), 18_944, _QWEN_LARGE, tied=False),
    "Qwen2.5-14B": _config("qwen2", 5120, 48, (40, 8, 128), 13_824, _QWEN_LARGE, tied=False),
    "Qwen2.5-32B": _config("qwen2", 5120, 64, (40, 8, 128), 27_648, _QWEN_LARGE, tied=False),
    "Qwen3-0.6B": _config("qwen3", 1024, 28, (16, 8, 128), 3072, _QWEN, tied=True),
    "Qwen3-1.7B": _config("qwen3", 2048, 28, (16, 8, 128), 6144, _QWEN, tied=True),
    "Qwen3-4B": _config("qwen3", 2560, 36, (32, 8, 128), 9728, _QWEN, tied=True),
    "Qwen3-8B": _config("qwen3", 4096, 36, (32, 8, 128), 12_288, _QWEN, tied=False),
    "Qwen3-14B": _config("qwen3", 5120, 40, (40, 8, 128), 17_408, _QWEN, tied=False),
    "Llama-3.2-1B": _config("llama", 2048, 16, (32, 8, 64), 8192, _LLAMA, tied=True),
    "Llama-3.2-3B": _config("llama", 3072, 28, (24, 8, 128), 8192, _LLAMA, tied=True),
    "Llama-3.1-8B": _config("llama", 4096, 32, (32, 8, 128), 14_336, _LLAMA, tied=False),
    "SmolLM2-135M": _config("llama", 576, 30, (9, 3, 64), 1536, 49_152, tied=True),
    "SmolLM2-360M": _config("llama", 960, 32, (15, 5, 64), 2560, 49_152, tied=True),
    "SmolLM2-1.7B": _config("llama", 2048, 24, (32, 32, 64), 8192, 49_152, tied=True),
    "SmolLM3-3B": _config("smollm3", 2048, 36, (16, 4, 128), 11_008, _LLAMA, tied=True),
    "Gemma-3-270M": _config("gemma3_text", 640, 18, (4, 1, 256), 2048, _GEMMA, tied=True),
    "Gemma-3-1B": _config("gemma3_text", 1152, 26, (4, 1, 256), 6912, _GEMMA, tied=True),
    "Mistral-7B-v0.3": _config("mistral", 4096, 32, (32, 8, 128), 14_336, 32_768, tied=False),
    "DeepSeek-R1-Distill-Qwen-1.5B": _config("qwen2", 1536, 28, (12, 2, 128), 8960, _QWEN, tied=False),
    "DeepSeek-R1-Distill-Qwen-7B": _config("qwen2", 3584, 28, (28, 4, 128), 18_944, _QWEN_LARGE, tied=False),
}
