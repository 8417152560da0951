"""Configuration of transformers from the metadata of a GGUF file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from trainer.models.conversion.families import Family
from trainer.models.conversion.gguf_file import GgufModel
from trainer.models.store import ModelStoreError

_ROPE_FREQUENCIES = "rope_freqs.weight"
_GEMMA_LOCAL_THETA = 10_000.0
_GEMMA_FULL_EVERY = 6
_LLAMA3_LENGTH, _LLAMA3_LOW, _LLAMA3_HIGH = 8192, 1.0, 4.0
"""Original context and frequency factors of Llama 3.1 and 3.2; the factor itself is in the file."""


def read_config(model: GgufModel, family: Family, *, tied: bool, vocabulary: int) -> dict[str, Any]:
    """Return the content of config.json.

    Args:
        tied: whether the output layer is the embedding.
        vocabulary: rows of the embedding.
    Raises:
        ModelStoreError: a size is missing, or the positions are encoded in a way that is not supported.
    """
    hidden, heads = int(model.required("embedding_length")), int(model.required("attention.head_count"))
    head_dim = int(model.setting("attention.key_length") or model.setting("rope.dimension_count") or hidden // heads)
    if int(model.setting("expert_count", 0) or 0):
        raise ModelStoreError("GGUF files of mixtures of experts cannot be imported: fetch the model from the Hub")
    rotary = int(model.setting("rope.dimension_count", head_dim))
    if rotary != head_dim:
        raise ModelStoreError(f"only {rotary} of {head_dim} elements of a head are rotated, which is not supported")
    config: dict[str, Any] = {
        "architectures": [family.architecture],
        "model_type": family.model_type,
        "hidden_size": hidden,
        "intermediate_size": int(model.required("feed_forward_length")),
        "num_hidden_layers": int(model.required("block_count")),
        "num_attention_heads": heads,
        "num_key_value_heads": int(model.setting("attention.head_count_kv", heads)),
        "head_dim": head_dim,
        "vocab_size": vocabulary,
        "max_position_embeddings": int(model.required("context_length")),
        "rms_norm_eps": _rounded(model.required("attention.layer_norm_rms_epsilon")),
        "tie_word_embeddings": tied,
        "attention_dropout": 0.0,
    }
    if family.model_type == "gemma3_text":
        return config | _gemma(model, config)
    if family.model_type == "llama":
        has_bias = "blk.0.attn_q.bias" in model.tensors
        config |= {"attention_bias": has_bias, "mlp_bias": "blk.0.ffn_up.bias" in model.tensors}
    elif family.model_type == "qwen3":
        config |= {"attention_bias": False, "use_sliding_window": False}
    else:
        config |= {"use_sliding_window": False}
    theta = _rounded(model.setting("rope.freq_base", 10_000.0))
    return config | {"hidden_act": "silu", "rope_parameters": {"rope_theta": theta, **_scaling(model, theta, head_dim)}}


def _rounded(value: float) -> float:
    """Return a float32 of the file as the decimal that it was written as: 1e-05, not 9.999999747378752e-06."""
    return float(np.format_float_scientific(np.float32(value), unique=True))


def _gemma(model: GgufModel, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return what Gemma 3 has besides: a window in all but every sixth layer, and positions of two kinds.

    Source: Gemma 3 technical report (arXiv 2503.19786), section 2; the 27B scales queries by hidden size and heads.
    """
    layers, heads = config["num_hidden_layers"], config["num_attention_heads"]
    factor = float(model.setting("rope.scaling.factor", 0) or 0)
    theta = _rounded(model.setting("rope.freq_base", 1_000_000.0))
    scaled = {"rope_type": "linear", "factor": factor} if factor > 1 else {"rope_type": "default"}
    kinds = ["full_attention" if (n + 1) % _GEMMA_FULL_EVERY == 0 else "sliding_attention" for n in range(layers)]
    large = layers == 62  # the 27B
    return {
        "hidden_activation": "gelu_pytorch_tanh",
        "attention_bias": False,
        "query_pre_attn_scalar": config["hidden_size"] // heads if large else config["head_dim"],
        "sliding_window": int(model.required("attention.sliding_window")),
        "layer_types": kinds,
        "rope_parameters": {
            "sliding_attention": {"rope_type": "default", "rope_theta": _GEMMA_LOCAL_THETA},
            "full_attention": {"rope_theta": theta, **scaled},
        },
    }


def _scaling(model: GgufModel, theta: float, head_dim: int) -> dict[str, Any]:
    """Return the scaling of positions: none, of Llama 3, linear or YaRN."""
    if _ROPE_FREQUENCIES in model.tensors:
        return _llama3(np.array(model.tensors[_ROPE_FREQUENCIES].data, dtype=np.float64), theta, head_dim)
    kind, factor = str(model.setting("rope.scaling.type", "none")), float(model.setting("rope.scaling.factor", 0) or 0)
    if kind == "none" or factor in (0.0, 1.0):
        return {"rope_type": "default"}
    if kind not in ("linear", "yarn"):
        raise ModelStoreError(f"the GGUF file scales positions by {kind!r}, which cannot be imported")
    scaled: dict[str, Any] = {"rope_type": kind, "factor": factor}
    if length := model.setting("rope.scaling.original_context_length"):
        scaled["original_max_position_embeddings"] = int(length)
    return scaled


def _llama3(factors: np.ndarray[Any, Any], theta: float, head_dim: int) -> dict[str, Any]:
    """Return Llama 3's scaling from the factors by which each frequency is divided. Raises ModelStoreError for others.

    Formula: as transformers computes `rope_type: llama3`.
    """
    factor = float(factors.max())
    expected = []
    for pair in range(head_dim // 2):
        length = 2 * math.pi * theta ** (2 * pair / head_dim)
        if length < _LLAMA3_LENGTH / _LLAMA3_HIGH:
            expected.append(1.0)
        elif length > _LLAMA3_LENGTH / _LLAMA3_LOW:
            expected.append(factor)
        else:
            smooth = (_LLAMA3_LENGTH / length - _LLAMA3_LOW) / (_LLAMA3_HIGH - _LLAMA3_LOW)
            expected.append(1 / ((1 - smooth) / factor + smooth))
    if factors.shape != (head_dim // 2,) or not np.allclose(factors, expected, rtol=1e-3):
        raise ModelStoreError("the GGUF file scales positions by factors other than Llama 3's, which are not supported")
    return {
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": _LLAMA3_LOW,
        "high_freq_factor": _LLAMA3_HIGH,
        "original_max_position_embeddings": _LLAMA3_LENGTH,
    }
