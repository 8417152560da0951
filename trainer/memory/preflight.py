"""Memory check before a model is loaded: refuses the run, warns, or limits the trajectories sampled at once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoConfig

from trainer.config.run import RunConfig
from trainer.memory import available
from trainer.memory.advice import advice, gigabytes, parts_as_text, suggested_settings
from trainer.memory.estimate import MAX_SHARE, Role, estimate_memory, played_at_once, rows_that_fit
from trainer.memory.oom import OutOfMemoryError
from trainer.policy.load import get_revision, is_hub_id
from trainer.policy.shapes import ModelShape, find_shape, read


@dataclass(frozen=True)
class PreflightResult:
    """Result of the check: trajectories to sample at once (None: all), and a warning for the user."""

    rows: int | None = None
    warning: str = ""


def check(config: RunConfig, source: str, device: torch.device) -> PreflightResult:
    """Compare the memory estimate of a run with the free memory of its device.

    Args:
        source: folder or hub id of the policy.
    Raises:
        OutOfMemoryError: the run does not fit; the message lists its parts and settings that would save memory.
    """
    shape = _shape(source, config)
    memory = _free(device)
    if config.memory.preflight == "none" or shape is None or memory is None:
        return PreflightResult()
    return check_shape(config, shape, gpu=device.type == "cuda", free=memory[0], total=memory[1])


def check_shape(
    config: RunConfig,
    shape: ModelShape,
    *,
    gpu: bool,
    free: int,
    total: int,
    processes: int = 1,
    role: Role = "all",
    who: str = "the run",
    where: str = "",
) -> PreflightResult:
    """As `check`, for a device with `free` of `total` bytes available.

    Args:
        role: what the process on the device does.
        who, where: names of the process and the device in messages.
    Raises:
        OutOfMemoryError: as in `check`; with memory.preflight=warn a warning instead.
    """
    rows = rows_that_fit(config, shape, gpu=gpu, free=free, total=total, processes=processes, role=role)
    estimate = estimate_memory(config, shape, gpu=gpu, rows=rows, total=total, processes=processes, role=role)
    where = where or ("the GPU" if gpu else "this machine")
    takes = f"{gigabytes(estimate.peak)} of the {gigabytes(free)} that are free on {where}"
    savings = advice(suggested_settings(config, shape, gpu=gpu, rows=rows, total=total, processes=processes, role=role))
    plays = role != "learn"
    if estimate.peak > free:
        message = (
            f"{who} does not fit: it would take {takes}. Parts: {parts_as_text(estimate)}. "
            f"Of the settings, {savings}. To try it anyway, set memory.preflight=warn"
        )
        if config.memory.preflight == "refuse":
            raise OutOfMemoryError(message)
        return PreflightResult(rows if plays else None, f"{_capitalised(message)}.")
    in_chunks = plays and rows < played_at_once(config, processes) and not config.engine.foreign
    if estimate.peak > MAX_SHARE * free and not in_chunks:
        warning = f"{_capitalised(who)} will take about {takes}. If that is too much, {savings}."
        return PreflightResult(rows if plays else None, warning)
    return PreflightResult(rows, _chunks_notice(config, rows, processes)) if in_chunks else PreflightResult()


def _capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]


def check_gpu(config: RunConfig, shape: ModelShape | None, device: torch.device, role: Role) -> PreflightResult:
    """As `check`, for an actor with a GPU of its own; on a CPU its driver has checked all actors of the node together.

    Raises:
        OutOfMemoryError: as in `check`.
    """
    memory = _free(device) if device.type == "cuda" else None
    if config.memory.preflight == "none" or shape is None or memory is None:
        return PreflightResult()
    cluster = config.cluster
    processes = cluster.rollout_actors if role == "play" else cluster.learners
    return check_shape(
        config,
        shape,
        gpu=True,
        free=memory[0],
        total=memory[1],
        processes=processes,
        role=role,
        who=f"a {'rollout actor' if role == 'play' else 'learner'}",
        where=f"its GPU ({torch.cuda.get_device_name(device)})",
    )


def _chunks_notice(config: RunConfig, rows: int, processes: int) -> str:
    return (
        f"Of {played_at_once(config, processes)} trajectories, {rows} at a time fit into memory: they are played in "
        "chunks, which takes longer. Shorter responses (rollout.max_response_tokens) or policy.dtype=bfloat16 allow "
        "larger chunks."
    )


def _shape(source: str, config: RunConfig) -> ModelShape | None:
    """The model's shape; None if unknown or if the model cannot be loaded, which its loading reports."""
    shape = find_shape(source)
    if shape is not None:
        return shape
    if not Path(source).is_dir() and not is_hub_id(source):
        return None
    version = {} if Path(source).is_dir() else get_revision(config.policy)
    try:
        return read(AutoConfig.from_pretrained(source, trust_remote_code=False, **version).to_dict())
    except (OSError, ValueError, KeyError):
        return None


def _free(device: torch.device) -> tuple[int, int] | None:
    """(free, total) bytes of the device; of the host's memory, what this process occupies counts as free."""
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(free) + unused, int(total)
    memory = available.available_memory()
    return memory and (memory[0] + available.resident_memory(), memory[1])  # the estimate includes this process
