"""Tensor shapes of a causal LM from its config.json, without torch."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

from trainer.config.base import is_hub_id
from trainer.config.catalogue import catalogue
from trainer.config.catalogue.known_models import KNOWN_CONFIGS
from trainer.config.run import POCKET
from trainer.journal.protocol import CHECKPOINTS_FOLDER
from trainer.models import store
from trainer.paths import POCKET_CHECKPOINT

_MAX_SIZE, _MAX_LAYERS, _MAX_EXPERTS = 10**8, 10_000, 10_000


@dataclass(frozen=True)
class Experts:
    """Layers of a mixture of experts: gated MLPs, of which a router chooses some for each token.

    Attributes:
        number: number of experts in such a layer; `active` of them compute a token.
        intermediate: intermediate size of one expert.
        shared: total intermediate size of the experts that compute every token.
        layers: number of layers that have experts instead of an MLP.
    """

    number: int
    active: int
    intermediate: int
    layers: int
    shared: int = 0


@dataclass(frozen=True)
class LatentAttention:
    """Multi-head latent attention: keys and values, and often queries, pass a narrow layer (DeepSeek-V2, section 2.1).

    Attributes:
        query_rank: width of that layer for queries; 0: queries have none.
        key_rank: width of that layer for keys and values.
        rotary: elements of each head's queries and keys with positions, shared by the keys of all heads.
        value: elements of each head's values.
    """

    query_rank: int
    key_rank: int
    rotary: int
    value: int


@dataclass(frozen=True)
class ModelShape:
    """A decoder: grouped-query or latent attention, an MLP or experts in each layer.

    Attributes:
        context: maximum length in tokens.
        tied: whether the output layer is the embedding.
        query_bias, output_bias, mlp_bias: whether the projections to queries, keys and values, the output projection,
            and the MLP have biases.
        head_norms: whether queries and keys are normalised per head.
        experts: mixture of experts; None: every layer has one MLP.
        latent: latent attention; None: grouped-query attention.
        gated: whether the MLP has a gate.
        norms: number of norms per layer; with biases if `norm_bias`.
        head_bias: whether the output layer has a bias.
        learned_positions: number of positions with learned embeddings.
    """

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int
    context: int
    tied: bool = True
    query_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    head_norms: bool = False
    experts: Experts | None = None
    latent: LatentAttention | None = None
    gated: bool = True
    norms: int = 2
    norm_bias: bool = False
    head_bias: bool = False
    learned_positions: int = 0

    @property
    def active_intermediate(self) -> int:
        """Elements of a token's largest intermediate layer: an MLP's, or the sum over its experts."""
        experts = self.experts
        if experts is None:
            return self.intermediate
        sparse = experts.active * experts.intermediate + experts.shared
        return sparse if experts.layers == self.layers else max(sparse, self.intermediate)

    @property
    def query(self) -> int:
        """Elements of a token's queries in one layer."""
        return self.heads * self.head_dim

    @property
    def key(self) -> int:
        """Elements of a token's keys in one layer, and of its values."""
        return self.kv_heads * self.head_dim

    @property
    def parameters(self) -> int:
        return sum(prod(size) for size in self.tensors())

    @property
    def backbone(self) -> int:
        """Parameters without the output layer; a tied embedding is counted."""
        return self.parameters - (0 if self.tied else self.vocabulary * self.hidden)

    def attention(self) -> dict[str, tuple[int, int]]:
        """Return the (out, in) sizes of one layer's linear attention layers, by name."""
        if latent := self.latent:
            queries = {"q_proj": (self.query, self.hidden)}
            if rank := latent.query_rank:
                queries = {"q_a_proj": (rank, self.hidden), "q_b_proj": (self.query, rank)}
            pairs = self.heads * (self.head_dim - latent.rotary + latent.value)
            return queries | {
                "kv_a_proj_with_mqa": (latent.key_rank + latent.rotary, self.hidden),
                "kv_b_proj": (pairs, latent.key_rank),
                "o_proj": (self.hidden, self.heads * latent.value),
            }
        return {
            "q_proj": (self.query, self.hidden),
            "k_proj": (self.key, self.hidden),
            "v_proj": (self.key, self.hidden),
            "o_proj": (self.hidden, self.query),
        }

    def mlp(self, intermediate: int) -> dict[str, tuple[int, int]]:
        """Return the (out, in) sizes of an MLP's or expert's linear layers with this intermediate size, by name."""
        gate = {"gate_proj": (intermediate, self.hidden)} if self.gated else {}
        return gate | {"up_proj": (intermediate, self.hidden), "down_proj": (self.hidden, intermediate)}

    def linears(self, *, sparse: bool = False) -> Iterator[tuple[str, tuple[int, int]]]:
        """Yield names and (out, in) sizes of the linear layers of one layer: an ordinary one, or one with experts."""
        yield from self.attention().items()
        experts = self.experts
        if not sparse or experts is None:
            yield from self.mlp(self.intermediate).items()
            return
        for _ in range(experts.number):
            yield from self.mlp(experts.intermediate).items()
        if experts.shared:
            yield from self.mlp(experts.shared).items()

    def layer_tensors(self, *, sparse: bool = False) -> Iterator[tuple[int, ...]]:
        """Yield the sizes of the weights of one layer: an ordinary one, or one with experts."""
        biased = {"q_proj": self.query_bias, "k_proj": self.query_bias, "v_proj": self.query_bias}
        biased |= {"o_proj": self.output_bias}
        for name, size in self.linears(sparse=sparse):
            yield size
            if biased.get(name, self.mlp_bias):
                yield size[:1]
        if sparse and self.experts is not None:
            yield (self.experts.number, self.hidden)  # the router
        yield from self._norm() * self.norms
        if self.head_norms:
            yield from [(self.head_dim,)] * 2
        if self.latent:
            yield from [(rank,) for rank in (self.latent.query_rank, self.latent.key_rank) if rank]

    def _norm(self) -> list[tuple[int]]:
        """Return the sizes of one norm's weights and biases."""
        return [(self.hidden,)] * (2 if self.norm_bias else 1)

    def tensors(self) -> Iterator[tuple[int, ...]]:
        """Yield the sizes of all weights."""
        yield (self.vocabulary, self.hidden)
        if self.learned_positions:
            yield (self.learned_positions, self.hidden)
        for sparse in self._sparse_layers():
            yield from self.layer_tensors(sparse=sparse)
        yield from self._norm()
        if not self.tied:
            yield (self.vocabulary, self.hidden)
        if self.head_bias:
            yield (self.vocabulary,)

    def adapters(self, rank: int) -> Iterator[tuple[int, int]]:
        """Yield the sizes of the LoRA matrices: (rank, in) and (out, rank) of each linear layer."""
        for sparse in self._sparse_layers():
            for _, (out, into) in self.linears(sparse=sparse):
                yield (rank, into)
                yield (out, rank)

    def _sparse_layers(self) -> Iterator[bool]:
        """Yield whether each layer has experts, dense layers first."""
        with_experts = self.experts.layers if self.experts else 0
        yield from [False] * (self.layers - with_experts)
        yield from [True] * with_experts


def read(config: Mapping[str, Any]) -> ModelShape | None:
    """Read the shape from a checkpoint's config.json; None if a size is missing or the model is of another kind."""
    try:
        config = _renamed(config.get("text_config") or config)
        hidden, heads = int(config["hidden_size"]), int(config["num_attention_heads"])
        kind, latent = str(config.get("model_type", "")), _latent(config)
        biased = bool(config.get("attention_bias", False))
        nope = int(config.get("qk_nope_head_dim") or 0)
        shape = ModelShape(
            hidden=hidden,
            layers=int(config["num_hidden_layers"]),
            heads=heads,
            kv_heads=int(config.get("num_key_value_heads") or heads),
            head_dim=nope + latent.rotary if latent else int(config.get("head_dim") or hidden // heads),
            intermediate=int(config["intermediate_size"]),
            vocabulary=int(config["vocab_size"]),
            context=int(config.get("max_position_embeddings", 2048)),
            tied=bool(config.get("tie_word_embeddings", True)),
            query_bias=biased,
            output_bias=biased,
            mlp_bias=bool(config.get("mlp_bias", False)),
            experts=_experts(config),
            latent=latent,
        )
        shape = replace(shape, **_OF_KIND.get(kind, {}))
        if kind in ("gpt2", "gpt_neox"):  # regardless of the rest of the configuration
            shape = replace(shape, kv_heads=heads, learned_positions=shape.context if kind == "gpt2" else 0)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError, ZeroDivisionError):
        return None
    sizes = (hidden, heads, shape.kv_heads, shape.head_dim, shape.intermediate, shape.vocabulary, shape.context)
    sane = all(0 < size <= _MAX_SIZE for size in sizes) and 0 < shape.layers <= _MAX_LAYERS
    if shape.experts is not None:
        number, active, intermediate, layers, shared = astuple(shape.experts)
        sane &= 0 < active <= number <= _MAX_EXPERTS and 0 < intermediate <= _MAX_SIZE and 0 <= shared <= _MAX_SIZE
        sane &= 0 <= layers <= shape.layers
    if latent is not None:
        sane &= all(0 < size <= _MAX_SIZE for size in (latent.key_rank, latent.rotary, latent.value))
        sane &= 0 <= latent.query_rank <= _MAX_SIZE and nope >= 0
    return shape if sane else None


_BIASES: dict[str, Any] = {"query_bias": True, "output_bias": True, "mlp_bias": True, "norm_bias": True}
_OF_KIND: Mapping[str, Mapping[str, Any]] = {
    "qwen2": {"query_bias": True},
    "qwen3": {"head_norms": True},
    "qwen3_moe": {"head_norms": True},
    "gemma3_text": {"head_norms": True, "norms": 4},
    "phi": {"gated": False, "norms": 1, "head_bias": True} | _BIASES,
    "gpt_neox": {"gated": False} | _BIASES,
    "starcoder2": {"gated": False} | _BIASES,
    "gpt2": {"gated": False} | _BIASES,
    "nemotron": {"gated": False, "norm_bias": True},
}
"""Properties of kinds of models that their configuration does not contain."""
_GPT2_NAMES = {
    "hidden_size": "n_embd",
    "num_hidden_layers": "n_layer",
    "num_attention_heads": "n_head",
    "max_position_embeddings": "n_positions",
}


def _renamed(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the configuration with the usual names of sizes; GPT-2 uses other names."""
    if config.get("model_type") != "gpt2":
        return config
    named = {usual: config[name] for usual, name in _GPT2_NAMES.items() if name in config}
    return {**config, **named, "intermediate_size": config.get("n_inner") or 4 * int(config["n_embd"])}


def _latent(config: Mapping[str, Any]) -> LatentAttention | None:
    """Read latent attention, with DeepSeek's names of its sizes."""
    if not config.get("kv_lora_rank"):
        return None
    names = ("kv_lora_rank", "qk_rope_head_dim", "v_head_dim")
    return LatentAttention(int(config.get("q_lora_rank") or 0), *(int(config[name]) for name in names))


_EXPERT_COUNTS = ("num_local_experts", "num_experts", "n_routed_experts")


def _experts(config: Mapping[str, Any]) -> Experts | None:
    """Read the experts of a configuration, with the names used by Mixtral, Qwen, DeepSeek and their relatives."""
    number = next((int(config[name]) for name in _EXPERT_COUNTS if config.get(name)), 0)
    if number < 2:
        return None
    intermediate = int(config.get("moe_intermediate_size") or config["intermediate_size"])
    shared = config.get("shared_expert_intermediate_size") or (config.get("n_shared_experts") or 0) * intermediate
    layers, dense = int(config["num_hidden_layers"]), int(config.get("first_k_dense_replace") or 0)
    every, only_mlp = int(config.get("decoder_sparse_step") or 1), config.get("mlp_only_layers") or []
    sparse = [layer for layer in range(dense, layers) if (layer + 1) % every == 0 and layer not in only_mlp]
    return Experts(number, int(config.get("num_experts_per_tok") or 1), intermediate, len(sparse), int(shared))


def named_shape(model: str) -> ModelShape | None:
    """Return the shape of a known model or one of the catalogue, only by its name; no file is read.

    Tuned versions have the shape of their base.
    """
    if model in catalogue():
        return read(catalogue()[model].config)
    name = _TUNED.sub("", model.rstrip("/").rsplit("/", 1)[-1])
    return read(KNOWN_CONFIGS[name]) if name in KNOWN_CONFIGS else None


_TUNED = re.compile(r"-(?:Instruct|Base|Thinking)(?:-2507)?(?=$|-v0)|^Meta-")


def find_shape(model: str) -> ModelShape | None:
    """Find the shape of `policy.model` by a folder's config.json, a known model or a downloaded one; otherwise None."""
    if model == POCKET:
        return read_folder(POCKET_CHECKPOINT)
    folder = Path(model)
    try:
        is_folder = folder.is_dir()
        saved = sorted(folder.glob(f"{CHECKPOINTS_FOLDER}/*/config.json")) if is_folder else []
    except (OSError, ValueError):  # an impossible folder name, or a folder without read permission
        return None
    if is_folder:
        return read_folder(saved[0].parent if saved else folder)  # all checkpoints of a run have the same shape
    if stored := store.find(model):
        return read_folder(stored)
    return named_shape(model) or cached_shape(model)


def read_folder(folder: Path) -> ModelShape | None:
    """Read the shape of a checkpoint folder; None if its config.json is missing or incomplete."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return read(config) if isinstance(config, dict) else None


def cached_shape(model: str) -> ModelShape | None:
    """Read the shape of a hub id with a previously downloaded config.json; None without one. Nothing is downloaded."""
    from huggingface_hub import try_to_load_from_cache

    if not is_hub_id(model):
        return None
    try:
        file = try_to_load_from_cache(model, "config.json")
    except (OSError, ValueError):
        return None
    return read_folder(Path(file).parent) if isinstance(file, str) else None


def hub_shape(model: str, revision: str = "") -> ModelShape | None:
    """Read the shape of a hub id from its config.json, downloaded if it is not cached; None if it cannot be read."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError

    if not is_hub_id(model):
        return None
    library = logging.getLogger("huggingface_hub")
    level = library.level
    library.setLevel(logging.ERROR)  # it warns of each of six attempts without a network
    try:
        file = hf_hub_download(model, "config.json", revision=revision or None)
    except (HfHubHTTPError, OSError, ValueError):
        return None
    finally:
        library.setLevel(level)
    return read_folder(Path(file).parent)
