"""Memory estimate of a run, from its settings and the model's shape; docs/memory.md has the formulas.

Imports no torch, because the launch form uses it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Literal

import envs
from trainer.config.engine import MAX_ROWS
from trainer.config.run import RunConfig
from trainer.config.update_variants import update_variants
from trainer.memory import activations
from trainer.memory.activations import ActivationBytes
from trainer.policy.shapes import ModelShape

GB = 10**9
Stage = Literal["play", "learn", "step", "warmup"]
STAGES: dict[Stage, str] = {
    "play": "while playing",
    "learn": "while learning",
    "step": "in the optimiser's step",
    "warmup": "in the warm-up",
}
ALWAYS: tuple[Stage, ...] = ("play", "learn", "step")
"""Stages of an iteration. The warm-up on demonstrations is over, and its learner released, before the first one."""
Role = Literal["all", "play", "learn"]
"""What a process of a run does: an actor only plays or only learns."""

CUDA_CONTEXT = 850 * 2**20
"""Context, kernels and workspaces of a GPU process: 835 MiB on an H200, CUDA 13.0 (`bench.gpu --parts iteration`)."""
PROCESS_BYTES = 600 * 10**6
"""Resident set of a trainer on a CPU with a real tokenizer but without weights: interpreter, libraries, tokenizer."""
MAX_LOGITS = 2**25
"""Logits that exist at once: `token_logprobs.MAX_LOGITS`."""
PREFILL_TOKENS = 8192
"""Prompt tokens that the transformers sampler processes in one forward pass."""
MAX_KEYS_PER_TOKEN = 2
"""Keys per token of a micro-batch with shared prompts: `micro_batches.MAX_KEYS_PER_TOKEN`."""
MAX_CPU_TOKENS = 4096
"""Tokens of a micro-batch on a CPU: `micro_batches.MAX_CPU_TOKENS`."""
SMALL = 20_000_000
"""Parameters below which the initial policy is always kept, to measure the distance from it."""
MAX_SHARE = 0.92
"""Share of the free memory above which a warning is given, and which sampling in chunks stays below."""
OPENING_TOKENS = {"ToolPython": 320, "ToolSearch": 320, "ToolMCP": 640}
"""Typical maximum of the tokens of the opening message by environment; definitions of tools make it longer."""
DEFAULT_OPENING_TOKENS = 192
STATE_TOKENS = {"WebShop": 1536, "Sudoku": 256, "RubiksCube": 192, "Bandit": 48, "BanditRev": 48, "BanditTest": 48}
"""Typical maximum of the tokens of a state by environment, with the framing of its turn; of puzzles the largest."""
DEFAULT_STATE_TOKENS = 128
SQUARE_GRIDS = ("FrozenLake", "Sokoban", "LargeSokoban", "SokobanNewVocab", "Boxoban")
"""Environments whose states are square grids with a side of `settings.size` cells."""
TURN_TOKENS = 52
"""Tokens of a turn around its grid: roles of the chat template, reward, number of the turn, actions left."""
REPEATED_FORMAT_TOKENS = 48
"""Tokens of the format line that `rollout.format_line=paper` repeats at each turn."""


@dataclass(frozen=True)
class MemoryItem:
    """A part of the memory: its bytes, and the stages that it is needed in."""

    name: str
    size: int
    stages: tuple[Stage, ...] = ALWAYS


@dataclass(frozen=True)
class MemoryEstimate:
    """All parts on one device. Stages follow one another, so the largest of them counts.

    `rows` is the number of trajectories sampled at once, `row_bytes` the memory of one of them.
    """

    parts: tuple[MemoryItem, ...]
    rows: int
    row_bytes: int

    def at(self, stage: Stage) -> int:
        """Bytes at a stage."""
        return sum(part.size for part in self.parts if stage in part.stages)

    @property
    def worst(self) -> Stage:
        """The stage with the largest total."""
        return max(STAGES, key=self.at)

    @property
    def peak(self) -> int:
        """Bytes at the worst stage."""
        return self.at(self.worst)

    def largest(self, stage: Stage) -> list[MemoryItem]:
        """The parts at a stage, largest first."""
        return sorted((part for part in self.parts if stage in part.stages), key=lambda part: -part.size)


def estimate_memory(
    config: RunConfig,
    shape: ModelShape,
    *,
    gpu: bool,
    rows: int | None = None,
    total: int | None = None,
    processes: int = 1,
    role: Role = "all",
) -> MemoryEstimate:
    """Memory estimate of a run on one device.

    Args:
        config: the settings.
        shape: the model's.
        gpu: whether the device is a GPU; else the host.
        rows: trajectories sampled at once; None: as many as the settings allow.
        total: bytes of the device, of which a vLLM engine takes a share; None: unknown.
        processes: learners of the run, one per device; they divide rows and, with parallel.sharding, weights. Above
            1, each shares its device with a rollout actor.
        role: what the process on the device does.
    """
    rows = played_at_once(config, processes) if rows is None else rows
    shards = processes if config.parallel.sharding == "full" else 1
    parts = _policy(config, shape, learns=role != "play")
    if role != "play":
        taught = config.for_demonstrations() if config.kind == "sft" else config
        parts += _learning(taught, shape, gpu=gpu, shards=shards)
    paired = role == "all" and processes > 1
    if paired and not config.engine.foreign:
        parts.append(MemoryItem("weights of the rollout actor", weight_bytes(config) * shape.parameters))
    if role == "learn":
        pass  # another process plays
    elif config.engine.foreign:
        parts += _engine(config, shape, gpu=gpu, total=total)
    else:
        parts += _playing(config, shape, rows)
    if gpu:
        parts.append(MemoryItem("CUDA itself", (1 + paired) * CUDA_CONTEXT))
    else:
        parts.append(MemoryItem("Python and libraries", (1 + paired) * PROCESS_BYTES))
    if config.warmup_steps and role != "play":
        imitation = config.model_copy(update={"kind": "sft"})
        alone = estimate_memory(imitation, shape, gpu=gpu, rows=rows, total=total, processes=processes, role=role)
        worst: Stage = "step" if alone.at("step") > alone.at("learn") else "learn"
        parts += [replace(part, stages=("warmup",)) for part in alone.largest(worst)]
    return MemoryEstimate(tuple(part for part in parts if part.size), rows, row_bytes(config, shape))


def weight_bytes(config: RunConfig) -> int:
    """Bytes of a weight."""
    return 2 if config.policy.dtype == "bfloat16" else 4


def played_at_once(config: RunConfig, processes: int = 1) -> int:
    """Trajectories sampled at once in one process, in a rollout or an evaluation."""
    evaluation = -(-config.evaluation.prompts // processes) * config.evaluation.samples_per_prompt
    rollout = -(-config.rollout.groups // processes) * config.rollout.group_size
    return max(rollout if config.kind == "train" else 0, evaluation, 1)


def rows_that_fit(
    config: RunConfig,
    shape: ModelShape,
    *,
    gpu: bool,
    free: int,
    total: int,
    processes: int = 1,
    role: Role = "all",
) -> int:
    """Trajectories that can be sampled at once: all, or as many as fit with some margin; at least one."""
    limit = played_at_once(config, processes)
    if config.engine.foreign or role == "learn":
        return limit

    def fits(rows: int) -> bool:
        return (
            estimate_memory(config, shape, gpu=gpu, rows=rows, total=total, processes=processes, role=role).at("play")
            <= MAX_SHARE * free
        )

    if fits(limit):
        return limit
    low, high = 1, limit
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def state_tokens(config: RunConfig) -> int:
    """Tokens of the longest state among the environments of a run, with the framing of its turn."""
    environment = config.environment
    mixed = [_state_tokens(config, entry.name, entry.settings) for entry in environment.mix]
    return max([_state_tokens(config, environment.name, environment.settings), *mixed])


def _state_tokens(config: RunConfig, name: str, settings: Mapping[str, Any]) -> int:
    if name not in SQUARE_GRIDS:
        return STATE_TOKENS.get(name, DEFAULT_STATE_TOKENS)
    size = int(settings.get("size", envs.settings_model(name).model_fields["size"].default))
    listed = size * size if config.environment.cells == "located" else 0
    repeated = REPEATED_FORMAT_TOKENS if config.rollout.format_line == "paper" else 0
    return TURN_TOKENS + size * (size + 1) + listed + repeated


def dialogue_tokens(config: RunConfig, shape: ModelShape) -> int:
    """Tokens of the longest dialogue: responses of maximum length, states of typical length."""
    return dialogue_lengths(config, shape)[-1]


def dialogue_lengths(config: RunConfig, shape: ModelShape) -> list[int]:
    """Tokens of the longest dialogue after the response of each of its turns."""
    rollout, names = config.rollout, config.environment.names
    opening = max(OPENING_TOKENS.get(name, DEFAULT_OPENING_TOKENS) for name in names)
    turn = rollout.max_response_tokens + state_tokens(config)
    turns = min(rollout.max_turns, rollout.context_turns or rollout.max_turns)
    return [min(shape.context, opening + number * turn) for number in range(1, turns + 1)]


def reserved_tokens(config: RunConfig, shape: ModelShape) -> int:
    """Tokens per row in the sampler's buffers, which grow by at least half, to grow rarely."""
    reserved = 0
    for length in dialogue_lengths(config, shape):
        reserved = reserved if length <= reserved else max(length, reserved + reserved // 2)
    return reserved


def cache_bytes(shape: ModelShape, rows: int, columns: int, width: int) -> int:
    """Keys and values of a cache of `rows` × `columns` tokens."""
    return 2 * shape.layers * rows * columns * shape.key * width


def row_bytes(config: RunConfig, shape: ModelShape) -> int:
    """Memory of one more trajectory while sampling: keys, values and the logits of its next token."""
    cache = cache_bytes(shape, 1, reserved_tokens(config, shape), weight_bytes(config))
    return cache + 5 * 4 * shape.vocabulary


def optimizer_bytes(config: RunConfig, shape: ModelShape, sizes: Iterable[tuple[int, ...]], width: int) -> int:
    """State of the optimiser for weights of the given sizes.

    Args:
        width: bytes per element of what is stepped on; moments have the same precision.
    """
    plain = (1, shape.vocabulary)  # first dimensions of a critic's head and of embeddings, which muon leaves to adamw
    return sum(_moments(config, size, width, plain=size[0] in plain) for size in sizes)


def _moments(config: RunConfig, size: tuple[int, ...], width: int, *, plain: bool) -> int:
    number = prod(size)
    match config.optimizer.name:
        case "adamw_8bit":
            return 2 * (number + 4 * -(-number // 256)) if number >= 4096 else 8 * number
        case "adafactor":
            return width * (prod(size[:-1]) + size[-1]) if len(size) > 1 else width * number
        case "sgd":
            return width * number
        case "muon" if len(size) == 2 and not plain:
            return width * number
        case _:
            return 2 * width * number


def _micro_batch_tokens(config: RunConfig, *, gpu: bool) -> int:
    """Tokens that a micro-batch of several dialogues has at most."""
    configured = config.optimizer.micro_batch_tokens
    return configured if gpu else min(configured, MAX_CPU_TOKENS)


def learned_tokens(config: RunConfig, shape: ModelShape, *, gpu: bool) -> int:
    """Tokens of the largest micro-batch; a dialogue longer than `micro_batch_tokens` is one of its own."""
    longest = dialogue_tokens(config, shape)
    return min(max(_micro_batch_tokens(config, gpu=gpu), longest), step_tokens(config, shape))


def step_rows(config: RunConfig) -> int:
    """Dialogues of an optimiser step: without those of groups that the filter always drops."""
    if config.kind == "sft":
        return min(config.sft.batch, config.sft.demonstrations)
    rollout = config.rollout
    mixed = len(config.environment.names) - 1  # each environment rounds its share of the groups up
    groups = min(rollout.groups, config.algorithm.most_kept(rollout.groups) + mixed)
    return min(config.optimizer.mini_batch_trajectories, groups * rollout.group_size)


def step_tokens(config: RunConfig, shape: ModelShape) -> int:
    """Tokens that an optimiser step computes.

    With shared prefixes the opening of the environment is computed once, and the first state once for each group.
    """
    longest, rows, rollout = dialogue_tokens(config, shape), step_rows(config), config.rollout
    if config.kind == "train" and rollout.context_turns:
        return rows * rollout.max_turns * longest
    if not update_variants().prefix_sharing:
        return rows * longest
    groups = rows if config.kind == "sft" else -(-rows // rollout.group_size)
    opening = min(longest, max(OPENING_TOKENS.get(name, DEFAULT_OPENING_TOKENS) for name in config.environment.names))
    state = max(0, min(dialogue_lengths(config, shape)[0], longest) - opening - rollout.max_response_tokens)
    return opening + groups * state + rows * (longest - opening - state)


def _policy(config: RunConfig, shape: ModelShape, *, learns: bool) -> list[MemoryItem]:
    """Weights that sample, or that are passed on to what samples, whole in every process."""
    size = weight_bytes(config) * shape.parameters
    parts = [MemoryItem("weights of the policy", size)]
    small = shape.parameters < SMALL
    if learns and config.kind == "train" and not config.lora.rank and (small or config.algorithm.kl_coef > 0):
        parts.append(MemoryItem("initial policy (reference)", size))
    return parts


def _learning(config: RunConfig, shape: ModelShape, *, gpu: bool, shards: int) -> list[MemoryItem]:
    if config.kind == "evaluate":
        return []
    rank = config.lora.rank
    sizes: list[tuple[int, ...]] = list(shape.adapters(rank) if rank else shape.tensors())
    several = step_tokens(config, shape) > learned_tokens(config, shape, gpu=gpu)
    has_critic = config.kind == "train" and config.algorithm.needs_critic
    parts = _trained("policy", config, shape, sizes, shards, accumulated=several or has_critic)
    if rank:
        parts.append(MemoryItem("adapters of the policy", 4 * _sum(sizes)))
    if has_critic:
        own = [*(sizes if rank or shape.tied else sizes[:-1]), (1, shape.hidden), (1,)]
        if rank or shards == 1:
            what = "adapters" if rank else "weights"
            parts.append(MemoryItem(f"{what} of the critic", _stored(config) * _sum(own)))
        parts += _trained("critic", config, shape, own, shards, accumulated=several)
    parts += _activations(config, shape, gpu=gpu)
    if shards > 1:
        gathered = shape.vocabulary * shape.hidden + 2 * _sum(shape.layer_tensors(sparse=shape.experts is not None))
        parts.append(MemoryItem("layers put together", weight_bytes(config) * gathered, ("learn",)))
    parts.append(MemoryItem("temporaries of the step", _step_bytes(config, sizes, gpu=gpu) // shards, ("step",)))
    return parts


def _sum(sizes: Iterable[tuple[int, ...]]) -> int:
    return sum(map(prod, sizes))


def _stored(config: RunConfig) -> int:
    """Bytes of a trained parameter in the model; adapters are always float32."""
    return 4 if config.lora.rank else weight_bytes(config)


def _stepped(config: RunConfig) -> int:
    """Bytes of a trained parameter in what the optimiser steps on."""
    return 4 if update_variants().master_weights else _stored(config)


def _trained(
    name: str,
    config: RunConfig,
    shape: ModelShape,
    sizes: list[tuple[int, ...]],
    shards: int,
    *,
    accumulated: bool,
) -> list[MemoryItem]:
    """Gradients, optimiser state and, unless the weights themselves are stepped on, their copies or shards.

    Args:
        accumulated: whether gradients exist while activations are computed: those of an earlier micro-batch. In a
            single one they replace the activations layer by layer.
    """
    number, width = _sum(sizes), _stepped(config)
    copied = width > _stored(config) or shards > 1
    kind = "float32 copy" if width == 4 else "share"
    with_gradients: tuple[Stage, ...] = ("learn", "step") if accumulated else ("step",)
    return [
        MemoryItem(f"{kind} of the {name}'s weights", width * number // shards if copied else 0),
        MemoryItem(f"gradients of the {name}", width * number // shards, with_gradients),
        MemoryItem(f"optimiser's state of the {name}", optimizer_bytes(config, shape, sizes, width) // shards),
    ]


def _step_bytes(config: RunConfig, sizes: list[tuple[int, ...]], *, gpu: bool) -> int:
    """Temporaries of an optimiser step: on a GPU for all weights at once, else for one after another.

    Source: torch.optim's multi-tensor forms, which are its default on a GPU. There adamw is one kernel without any.
    """
    copies = {"adamw": int(not gpu), "adafactor": 2, "muon": 1}.get(config.optimizer.name, 0)
    numbers = [prod(size) for size in sizes]
    return _stepped(config) * copies * (sum(numbers) if gpu else max(numbers))


def passing(config: RunConfig, shape: ModelShape, *, gpu: bool) -> ActivationBytes:
    """What determines the activations of the update.

    A dialogue longer than a micro-batch is one of its own, and shares no prefix.
    """
    scores, longest = 0, dialogue_tokens(config, shape)
    if gpu and weight_bytes(config) == 4 and shape.kv_heads < shape.heads:
        # PyTorch's only float32 GPU kernel for grouped heads materialises the scores.
        scores = longest
    variants, most = update_variants(), _micro_batch_tokens(config, gpu=gpu)
    shares = variants.prefix_sharing
    return ActivationBytes(
        width=weight_bytes(config),
        rank=config.lora.rank,
        scores=scores,
        checkpointed=config.optimizer.gradient_checkpointing,
        packed=shares or variants.packing,
        read=max(MAX_KEYS_PER_TOKEN * most, longest) / max(most, longest) if shares else 1,
        repeated=gpu and shares and shape.kv_heads < shape.heads,
    )


def _activations(config: RunConfig, shape: ModelShape, *, gpu: bool) -> list[MemoryItem]:
    """Activations of one micro-batch: policy and critic follow one another, so the larger counts.

    Logits are freed before the backward pass reaches the layers, so of these two the larger counts, too.
    """
    tokens, how = learned_tokens(config, shape, gpu=gpu), passing(config, shape, gpu=gpu)
    logits = logit_bytes(config, shape, scored_tokens(config, shape, tokens), gpu=gpu)
    transient = tokens * activations.backward_transient(shape, how)
    return [
        MemoryItem(f"activations of {tokens:,} tokens", tokens * activations.saved(shape, how), ("learn",)),
        MemoryItem(
            "logits" if logits > transient else "backward pass of one layer", max(logits, transient), ("learn",)
        ),
    ]


def scored_tokens(config: RunConfig, shape: ModelShape, tokens: int) -> int:
    """Tokens of a micro-batch that have logits: of the responses, not of prompts and states."""
    rollout = config.rollout
    responses = step_rows(config) * rollout.max_turns * rollout.max_response_tokens
    return min(tokens, -(-tokens * responses // step_tokens(config, shape)))


def logit_bytes(config: RunConfig, shape: ModelShape, tokens: int, *, gpu: bool) -> int:
    """Logits of a micro-batch and what is computed from them: of all scored tokens if few, else of a chunk.

    With chunks the output layer's gradient is summed in float32 before it is rounded. In float32 the head's output is
    not copied; on a GPU that has not been measured.
    """
    numbers = tokens * shape.vocabulary
    if numbers > MAX_LOGITS:
        trained = 0 if config.lora.rank else shape.vocabulary * shape.hidden * (4 + 2 * weight_bytes(config))
        return 4 * 4 * MAX_LOGITS + trained
    return (5 if weight_bytes(config) == 4 and not gpu else 6) * 4 * numbers


def prefill_tokens(config: RunConfig, shape: ModelShape, rows: int) -> int:
    """Largest number of tokens that the transformers sampler processes in one forward pass.

    The opening of an environment is processed once for all rows, the state of a turn for each row. Where
    `rollout.context_turns` drops earlier turns, whole prompts are processed again.
    """
    if config.rollout.context_turns:
        return min(PREFILL_TOKENS, rows * dialogue_tokens(config, shape))
    names = config.environment.names
    openings = sum(OPENING_TOKENS.get(name, DEFAULT_OPENING_TOKENS) for name in names)
    return min(PREFILL_TOKENS, openings + rows * min(state_tokens(config), shape.context))


def _playing(config: RunConfig, shape: ModelShape, rows: int) -> list[MemoryItem]:
    """The transformers sampler."""
    width, longest = weight_bytes(config), reserved_tokens(config, shape)
    tokens = prefill_tokens(config, shape, rows)
    repeated = 2 * shape.query * width * tokens if shape.kv_heads < shape.heads else 0
    return [
        MemoryItem(
            f"keys and values of {rows} × {longest:,} tokens", cache_bytes(shape, rows, longest, width), ("play",)
        ),
        MemoryItem("drawing tokens", 5 * 4 * rows * shape.vocabulary, ("play",)),
        MemoryItem("reading prompts", tokens * activations.forward_transient(shape, width) + repeated, ("play",)),
    ]


def _engine(config: RunConfig, shape: ModelShape, *, gpu: bool, total: int | None) -> list[MemoryItem]:
    """vLLM in this process: its share of a GPU, or its own weights and cache on a CPU; a server needs nothing here.

    On a GPU of unknown size: weights and the cache of the rows sampled at once. Asleep it frees the GPU for the
    learner; on a CPU it cannot sleep.
    """
    engine = config.engine
    if engine.name == "server":
        return []
    weights = weight_bytes(config) * shape.parameters
    if not gpu:
        return [MemoryItem("vLLM: weights, keys and values", weights + engine.cpu_cache_bytes)]
    rows = min(MAX_ROWS, played_at_once(config))
    size = int(engine.gpu_memory_utilization * total) if total else weights + rows * row_bytes(config, shape)
    return [MemoryItem("vLLM: weights, keys and values", size, ("play",))]
