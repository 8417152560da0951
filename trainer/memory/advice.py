"""Suggested settings that lower a run's memory: the estimate is computed again with each, without torch."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from trainer.config.run import RunConfig
from trainer.memory.estimate import GB, STAGES, MemoryEstimate, Role, Stage, estimate_memory, learned_tokens
from trainer.policy.shapes import ModelShape

_MIN_SAVING = GB // 20


@dataclass(frozen=True)
class SuggestedSetting:
    """A change of one setting and the bytes it saves at the peak."""

    setting: str
    value: Any
    saved: int

    def __str__(self) -> str:
        value = self.value if isinstance(self.value, str) else json.dumps(self.value)
        return f"{self.setting}={value} −{gigabytes(self.saved)}"


def gigabytes(size: float) -> str:
    """A size such as “6.1 GB” or “40 MB”; a GB is 10⁹ bytes."""
    return f"{size / GB:,.1f} GB" if size >= GB else f"{max(1, round(size / 10**6))} MB"


def suggested_settings(
    config: RunConfig,
    shape: ModelShape,
    *,
    gpu: bool,
    rows: int | None = None,
    total: int | None = None,
    processes: int = 1,
    role: Role = "all",
) -> list[SuggestedSetting]:
    """Changes that lower the peak noticeably, largest saving first; each is estimated alone."""
    device: dict[str, Any] = {"gpu": gpu, "total": total, "processes": processes, "role": role}
    before = estimate_memory(config, shape, rows=rows, **device).peak
    suggestions = []
    for name, value in _changes(config, shape, processes, gpu=gpu):
        changed = _with(config, name, value)
        if changed is None:
            continue
        fewer = None if rows is None else min(rows, _rows_after(rows, config, changed))
        saved = before - estimate_memory(changed, shape, rows=fewer, **device).peak
        if saved >= min(_MIN_SAVING, max(1, before // 50)):
            suggestions.append(SuggestedSetting(name, value, saved))
    return sorted(suggestions, key=lambda saving: -saving.saved)


def _rows_after(rows: int, config: RunConfig, changed: RunConfig) -> int:
    return max(1, rows * changed.rollout.trajectories // config.rollout.trajectories)


def _changes(config: RunConfig, shape: ModelShape, processes: int, *, gpu: bool) -> Iterator[tuple[str, Any]]:
    rollout, engine = config.rollout, config.engine
    if config.policy.dtype == "float32":
        yield "policy.dtype", "bfloat16"
    if engine.name == "vllm":
        yield "engine.gpu_memory_utilization", round(engine.gpu_memory_utilization / 2, 2)
    if config.kind != "evaluate":
        yield from _changes_of_updates(config, shape, processes, gpu=gpu)
    if config.kind == "train":
        if config.algorithm.needs_critic and rollout.group_size > 1:
            yield "algorithm.estimator", "grpo"
        if config.algorithm.kl_coef:
            yield "algorithm.kl_coef", 0.0
        if rollout.groups > 1:
            yield "rollout.groups", rollout.groups // 2
    if rollout.max_response_tokens >= 64:
        yield "rollout.max_response_tokens", rollout.max_response_tokens // 2


def _changes_of_updates(
    config: RunConfig, shape: ModelShape, processes: int, *, gpu: bool
) -> Iterator[tuple[str, Any]]:
    optimizer = config.optimizer
    if config.parallel.sharding == "none" and processes > 1:
        yield "parallel.sharding", "full"
    if not optimizer.gradient_checkpointing:
        yield "optimizer.gradient_checkpointing", True
    if (learned := learned_tokens(config, shape, gpu=gpu)) // 2 >= 64:
        yield "optimizer.micro_batch_tokens", min(optimizer.micro_batch_tokens, learned) // 2
    yield from (("optimizer.name", name) for name in ("adamw_fused", "adamw_8bit", "adafactor"))
    if not config.lora.rank:
        yield "lora.rank", 64
    elif config.lora.rank > 8:
        yield "lora.rank", config.lora.rank // 2


def _with(config: RunConfig, name: str, value: Any) -> RunConfig | None:
    """The settings with one changed; None if they are invalid or unchanged."""
    section, _, field = name.partition(".")
    data = config.model_dump()
    if data[section][field] == value:
        return None
    data[section][field] = value
    try:
        return RunConfig.model_validate(data)
    except ValidationError:
        return None


def table(estimate: MemoryEstimate) -> str:
    """An estimate as a Markdown table: each part by stage, and the totals."""
    stages = {stage: label for stage, label in STAGES.items() if estimate.at(stage)}
    sizes: dict[str, dict[Stage, int]] = defaultdict(lambda: defaultdict(int))
    for part in sorted(estimate.parts, key=lambda part: -part.size):
        for stage in part.stages:
            sizes[part.name][stage] += part.size
    lines = [["part", *stages.values()], ["---", *["---:"] * len(stages)]]
    for name, by_stage in sizes.items():
        lines.append([name, *(gigabytes(by_stage[stage]) if stage in by_stage else "" for stage in stages)])
    lines.append(["**together**", *(gigabytes(estimate.at(stage)) for stage in stages)])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def parts_as_text(estimate: MemoryEstimate) -> str:
    """Parts of the worst stage, largest first."""
    parts = estimate.largest(estimate.worst)
    return ", ".join(f"{part.name} {gigabytes(part.size)}" for part in parts if part.size >= estimate.peak // 200)


def advice(suggestions: list[SuggestedSetting], limit: int = 6) -> str:
    """The largest savings as text."""
    if not suggestions:
        return "no single setting would change that"
    return "these settings would save, each alone: " + "; ".join(map(str, suggestions[:limit]))
