"""Tiny models as GGUF files, written as llama.cpp's converter writes them, and tokenizers of real families."""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType, quants
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

DATA = Path(__file__).parents[2] / "data" / "tokenizers"
HEADS, KV_HEADS, LAYERS = 4, 2, 7
GEMMA_TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<start_of_turn>{{ m.role }}\n{{ m.content }}<end_of_turn>\n{% endfor %}"
)
_NORMAL, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = 1, 3, 4, 5, 6
_LAYER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}


@dataclass
class Words:
    """The tokenizer part of a GGUF file."""

    kind: str
    pre: str
    tokens: Sequence[str]
    kinds: Sequence[int]
    merges: Sequence[str] = ()
    scores: Sequence[float] = ()
    special: Mapping[str, int] = field(default_factory=dict)
    template: str = ""
    add_bos: bool = False


@cache
def smollm2() -> dict[str, Any]:
    """The whole tokenizer.json of SmolLM2, with `chat_template`."""
    data: dict[str, Any] = json.loads(lzma.decompress((DATA / "smollm2.json.xz").read_bytes()))
    return data


def smollm2_words(size: int = 1200) -> Words:
    """The first tokens of SmolLM2's vocabulary, with the merges among them."""
    data = smollm2()
    tokens = sorted(data["model"]["vocab"], key=data["model"]["vocab"].__getitem__)[:size]
    kept = set(tokens)
    merges = [merge for merge in data["model"]["merges"] if merge.replace(" ", "") in kept]
    special = {entry["content"] for entry in data["added_tokens"]}
    kinds = [_CONTROL if token in special else _NORMAL for token in tokens]
    roles = {"bos": 1, "eos": 2, "unknown": 0, "padding": 2}
    return Words("gpt2", "smollm", tokens, kinds, merges, special=roles, template=data["chat_template"])


def qwen_words(size: int = 700) -> Words:
    """A byte-level vocabulary with the tokens of Qwen's roles behind it, padded as Qwen's embedding is."""
    base = smollm2_words(size + 17)
    tokens = [*base.tokens[17:], "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>"]
    kinds = [_NORMAL] * (len(tokens) - 5) + [_CONTROL] * 3 + [_USER_DEFINED] * 2
    padding = [f"[PAD{number}]" for number in range(len(tokens), len(tokens) + 11)]
    merges = [merge for merge in base.merges if merge.replace(" ", "") in set(tokens)]
    end = len(tokens) - 5
    roles = {"bos": end, "eos": end + 2, "padding": end}
    template = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    kinds += [_UNUSED] * len(padding)
    return Words("gpt2", "qwen2", [*tokens, *padding], kinds, merges, special=roles, template=template)


def gemma_words() -> Words:
    """A SentencePiece vocabulary with byte tokens, runs of spaces and a few words, without a chat template."""
    tokens = ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>", "\n", "\n\n", "  ", "    "]
    kinds = [_CONTROL, _CONTROL, _CONTROL, _CONTROL, _CONTROL, _CONTROL] + [_USER_DEFINED] * 4
    tokens += [f"<0x{byte:02X}>" for byte in range(256)]
    kinds += [_BYTE] * 256
    letters = [*"▁abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789<>/|.,"]
    merged = ["he", "ll", "hell", "hello", "▁w", "or", "▁wor", "ld", "▁world", "Tu", "rn", "Turn"]
    tokens += [*merged, *letters]
    kinds += [_NORMAL] * (len(merged) + len(letters))
    scores = [-1000.0 if kind == _USER_DEFINED else 0.0 for kind in kinds[:266]]
    scores += [-float(number) for number in range(len(merged))] + [-100.0] * len(letters)
    roles = {"bos": 2, "eos": 1, "unknown": 3, "padding": 0}
    return Words("llama", "default", tokens, kinds, scores=scores, special=roles, add_bos=True)


def tiny_model(architecture: str, vocabulary: int, **settings: Any) -> PreTrainedModel:
    """A random model of one of the supported architectures, by llama.cpp's name."""
    common = {
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": 32,  # not hidden size / heads
        "vocab_size": vocabulary,
        "max_position_embeddings": 512,
        "tie_word_embeddings": True,
        "rms_norm_eps": 1e-5,
    }
    kind = {"gemma3": "gemma3_text"}.get(architecture, architecture)
    if architecture == "gemma3":
        common |= {"sliding_window": 8, "query_pre_attn_scalar": 32}
    else:
        common |= {"rope_parameters": {"rope_type": "default", "rope_theta": 30_000.0}}
    torch.manual_seed(0)
    config = AutoConfig.for_model(kind, **(common | settings))
    model = AutoModelForCausalLM.from_config(config).eval()
    for name, weight in model.named_parameters():
        weight.data = torch.randn_like(weight) * (0.2 if weight.dim() == 1 else 0.1)
        if name.endswith("norm.weight") and architecture != "gemma3":
            weight.data += 1
    return model


def write(
    path: Path,
    model: PreTrainedModel,
    architecture: str,
    words: Words,
    quantisation: GGMLQuantizationType = GGMLQuantizationType.F32,
    *,
    extra: Mapping[str, np.ndarray] | None = None,
    omit: Sequence[str] = (),
    values: Mapping[str, str | int | float] | None = None,
) -> None:
    """Write a model as GGUF, and give the model the weights that the file contains.

    Args:
        quantisation: of matrices; vectors are float32.
        extra: further tensors by llama.cpp's names.
        omit: keys of the metadata, and tensors, that are left out.
        values: further metadata, or other values, by llama.cpp's keys.
    """
    writer = gguf.GGUFWriter(path, architecture)
    config = model.config
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_key_length(config.head_dim)
    writer.add_license("apache-2.0")
    if architecture == "gemma3":
        writer.add_sliding_window(config.sliding_window)
    else:
        writer.add_rope_dimension_count(config.head_dim)
        writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    if "tokenizer" not in omit:
        _write_words(writer, words, omit)
    for key in (*omit, *(values or {})):
        writer.kv_data[0].pop(key, None)
    for key, value in (values or {}).items():
        adders = {str: writer.add_string, int: writer.add_uint32, float: writer.add_float32}
        adders[type(value)](key, value)
    for name, array in gguf_tensors(model, architecture).items():
        if name in omit:
            continue
        if array.ndim == 1:
            writer.add_tensor(name, array)
            continue
        packed = quants.quantize(array, quantisation)
        writer.add_tensor(name, packed, raw_dtype=quantisation)
        _set(model, architecture, name, quants.dequantize(packed, quantisation))
    for name, array in (extra or {}).items():
        writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _write_words(writer: gguf.GGUFWriter, words: Words, omit: Sequence[str]) -> None:
    writer.add_tokenizer_model(words.kind)
    writer.add_tokenizer_pre(words.pre)
    writer.add_token_list(list(words.tokens))
    writer.add_token_types(list(words.kinds))
    if words.merges:
        writer.add_token_merges(list(words.merges))
    if words.scores:
        writer.add_token_scores(list(words.scores))
    writer.add_add_bos_token(words.add_bos)
    writer.add_add_space_prefix(False)
    for role, number in words.special.items():
        writer.add_uint32(f"tokenizer.ggml.{role}_token_id", number)
    if words.template and "template" not in omit:
        writer.add_chat_template(words.template)


def gguf_tensors(model: PreTrainedModel, architecture: str) -> dict[str, np.ndarray]:
    """The weights of a model by llama.cpp's names, changed as its converter does."""
    tensors = {}
    for name, weight in model.named_parameters():
        array = weight.detach().float().numpy()
        if architecture == "llama" and ".q_proj" in name:
            array = permute(array, HEADS)
        if architecture == "llama" and ".k_proj" in name:
            array = permute(array, KV_HEADS)
        if architecture == "gemma3" and name.endswith("norm.weight"):
            array = array + 1
        tensors[gguf_name(name, architecture)] = np.ascontiguousarray(array)
    return tensors


def gguf_name(name: str, architecture: str) -> str:
    """llama.cpp's name of a weight."""
    if not name.startswith("model.layers."):
        return {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight"}.get(
            name, "output.weight"
        )
    number, rest = name.removeprefix("model.layers.").split(".", 1)
    module, kind = rest.rsplit(".", 1)
    after_attention = "post_attention_norm" if architecture == "gemma3" else "ffn_norm"
    return f"blk.{number}.{_LAYER.get(module, after_attention)}.{kind}"


def permute(array: np.ndarray, heads: int) -> np.ndarray:
    """The row order of convert_hf_to_gguf.py for queries and keys of Llama models."""
    halves = array.reshape(heads, 2, array.shape[0] // heads // 2, *array.shape[1:])
    return halves.swapaxes(1, 2).reshape(array.shape)


def _set(model: PreTrainedModel, architecture: str, name: str, array: np.ndarray) -> None:
    """Give a model's matrix the values that are left of it in the file."""
    for own, weight in model.named_parameters():
        if gguf_name(own, architecture) != name:
            continue
        if architecture == "llama" and (".q_proj" in own or ".k_proj" in own):
            heads = HEADS if ".q_proj" in own else KV_HEADS
            array = array.reshape(heads, array.shape[0] // heads // 2, 2, -1).swapaxes(1, 2).reshape(array.shape)
        weight.data = torch.from_numpy(np.array(array, dtype=np.float32))
