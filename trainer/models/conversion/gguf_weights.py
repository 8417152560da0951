"""Weights of a GGUF file: dequantised, under the names of transformers, with llama.cpp's changes undone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from gguf import GGMLQuantizationType, quants
from gguf.constants import GGML_QUANT_SIZES
from gguf.gguf_reader import ReaderTensor

from trainer.models.conversion.gguf_file import GgufModel
from trainer.models.store import ModelStoreError

Array = np.ndarray[Any, Any]

EMBEDDING, OUTPUT = "token_embd.weight", "output.weight"
_GLOBAL = {EMBEDDING: "model.embed_tokens.weight", OUTPUT: "lm_head.weight", "output_norm.weight": "model.norm.weight"}
_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "ffn_norm": "post_attention_layernorm",
}
_GEMMA_LAYER = _LAYER | {
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
_TENSOR = re.compile(r"blk\.(\d+)\.([a-z_]+)\.(weight|bias)")
_WITHOUT_WEIGHTS = {"rope_freqs.weight"}
_SAMPLE_ROWS = 512
_SAME_MATRIX = 0.5
"""Relative difference below which two quantised matrices are copies of one. Two bits per weight leave about 0.3;
independent matrices differ by 1.4."""


def source_names(model: GgufModel, model_type: str, *, tied: bool) -> Mapping[str, ReaderTensor]:
    """Return the tensors to convert by the names of transformers.

    The finer one of two copies of the embedding becomes the tied embedding.

    Raises:
        ModelStoreError: a tensor is unknown.
    """
    layer_names = _GEMMA_LAYER if model_type == "gemma3_text" else _LAYER
    tensors = {}
    for name, tensor in model.tensors.items():
        match = _TENSOR.fullmatch(name)
        if name in _GLOBAL:
            tensors[_GLOBAL[name]] = tensor
        elif match and match[2] in layer_names:
            tensors[f"model.layers.{match[1]}.{layer_names[match[2]]}.{match[3]}"] = tensor
        elif name not in _WITHOUT_WEIGHTS:
            raise ModelStoreError(
                f"the GGUF file has a tensor {name!r}, which {model.architecture} models of transformers lack: it "
                "cannot be imported"
            )
    if tied and (second := tensors.pop(_GLOBAL[OUTPUT], None)):
        first = tensors[_GLOBAL[EMBEDDING]]
        tensors[_GLOBAL[EMBEDDING]] = max(first, second, key=bits)
    return tensors


def is_tied(model: GgufModel) -> bool:
    """Return whether the output layer is the embedding: there is none, or it is another copy of the same matrix."""
    first, second = model.tensors[EMBEDDING], model.tensors.get(OUTPUT)
    if second is None:
        return True
    if first.shape.tolist() != second.shape.tolist():
        return False
    rows = np.unique(np.linspace(0, first.data.shape[0] - 1, _SAMPLE_ROWS, dtype=np.int64))
    one, two = (_dequantise(tensor, tensor.data[rows]) for tensor in (first, second))
    limit = _SAME_MATRIX if min(bits(first), bits(second)) < 16 else 0.01
    return bool(np.linalg.norm(one - two) < limit * np.linalg.norm(one))


def bits(tensor: ReaderTensor) -> float:
    """Return the bits per weight of a tensor's format."""
    block, size = GGML_QUANT_SIZES[tensor.tensor_type]
    return 8 * size / block


def check_formats(model: GgufModel) -> None:
    """Raise ModelStoreError for a format that cannot be dequantised, before anything is written."""
    for name, tensor in model.tensors.items():
        try:
            quants.dequantize(tensor.data.reshape(-1, tensor.data.shape[-1])[:1], tensor.tensor_type)
        except (NotImplementedError, ValueError, KeyError) as error:
            raise ModelStoreError(
                f"{name} has the format {tensor.tensor_type.name}, which cannot be dequantised ({error}): choose a "
                "file in Q4_K_M, Q8_0 or F16"
            ) from error


def convert_tensors(
    model: GgufModel, tensors: Mapping[str, ReaderTensor], config: Mapping[str, Any], dtype: torch.dtype
) -> Iterator[tuple[str, torch.Tensor, int]]:
    """Yield the name, weights and bytes read of each tensor, one at a time to limit memory.

    Raises:
        ModelStoreError: a shape does not fit the configuration.
    """
    heads, kv_heads = int(config["num_attention_heads"]), int(config["num_key_value_heads"])
    for name, tensor in tensors.items():
        weights = _dequantise(tensor, tensor.data)
        if config["model_type"] == "llama" and ".self_attn.q_proj." in name:
            weights = _undo_rope_order(weights, heads)
        elif config["model_type"] == "llama" and ".self_attn.k_proj." in name:
            weights = _undo_rope_order(weights, kv_heads)
        elif config["model_type"] == "gemma3_text" and name.endswith("norm.weight"):
            weights = weights - np.float32(1)  # llama.cpp multiplies by the weight, transformers by 1 + weight
        yield name, torch.from_numpy(np.ascontiguousarray(weights)).to(dtype), tensor.n_bytes


def _dequantise(tensor: ReaderTensor, data: Array) -> Array:
    if tensor.tensor_type in (GGMLQuantizationType.F32, GGMLQuantizationType.F16):
        return np.array(data, dtype=np.float32)
    return np.asarray(quants.dequantize(data, tensor.tensor_type), dtype=np.float32)


def _undo_rope_order(weights: Array, heads: int) -> Array:
    """Return rows of queries or keys with the two halves of each head in sequence.

    llama.cpp rotates neighbouring elements, transformers those of the two halves; the rows were interleaved for it.
    """
    if weights.shape[0] % (2 * heads):
        raise ModelStoreError(f"{weights.shape[0]} rows of queries or keys do not make {heads} heads")
    rest = weights.shape[1:]
    return weights.reshape(heads, weights.shape[0] // heads // 2, 2, *rest).swapaxes(1, 2).reshape(weights.shape)
