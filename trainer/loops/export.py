"""Export of a run's policy: weights with adapters merged, and tokenizer, without the state for resuming."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Literal

from trainer.config.run import PolicyConfig
from trainer.journal.protocol import ADAPTER_FOLDER, RESUME_FILES
from trainer.loops.stages import checkpoints
from trainer.policy.load import load


def export(
    run: Path,
    out: Path,
    *,
    iteration: int | None = None,
    dtype: Literal["float32", "bfloat16"] | None = None,
    adapter: bool = False,
) -> Path:
    """Write a checkpoint's policy to a separate folder.

    Args:
        run: folder of a run.
        out: folder to write; it must be empty or missing.
        iteration: iteration of the checkpoint; None: the newest.
        dtype: precision of the weights; None: as trained.
        adapter: write only the adapter, in peft's format, instead of merged weights.
    Returns:
        The checkpoint's folder.
    Raises:
        ValueError: there is no such checkpoint or adapter, or `out` is not empty.
    """
    saved = checkpoints.checkpoint_iterations(run)
    if not saved:
        raise ValueError(f"{run} holds no checkpoint of a run")
    if iteration is None:
        iteration, damaged = checkpoints.newest_sound(run)
        if iteration is None:
            raise ValueError(f"no checkpoint can be read: {'; '.join(damaged.values())}")
    elif iteration not in saved:
        raise ValueError(f"there is no checkpoint of iteration {iteration}; there are {', '.join(map(str, saved))}")
    elif problem := checkpoints.damage(run, iteration):
        raise ValueError(problem)
    if out.exists() and any(out.iterdir()):
        raise ValueError(f"{out} is not empty: choose another folder")
    source = checkpoints.get_path(run, iteration)
    if adapter and not (source / ADAPTER_FOLDER).is_dir():
        raise ValueError(f"{source} has no adapter: the run trained all weights (lora.rank 0)")
    if adapter:
        shutil.copytree(source / ADAPTER_FOLDER, out, dirs_exist_ok=True)
    elif dtype is None:
        shutil.copytree(source, out, ignore=shutil.ignore_patterns(*RESUME_FILES), dirs_exist_ok=True)
    else:
        policy = load(source, PolicyConfig(dtype=dtype, device="cpu"))
        policy.model.save_pretrained(out)
        policy.tokenizer.save_pretrained(out)
    return source
