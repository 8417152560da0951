"""`estimate-memory`: memory estimate of a configuration as a table, with suggested savings. Loads no model."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from trainer.config.catalogue.known_models import KNOWN_CONFIGS
from trainer.config.files import preset_names
from trainer.config.run import RunConfig
from trainer.memory.advice import gigabytes, suggested_settings, table
from trainer.memory.estimate import GB, STAGES, MemoryEstimate, estimate_memory, played_at_once, rows_that_fit
from trainer.policy.shapes import ModelShape, find_shape, hub_shape


def arguments(command: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    source = command.add_mutually_exclusive_group()
    source.add_argument("--preset", help=f"one of {', '.join(preset_names())}")
    source.add_argument("--config", type=Path, help="a YAML file with a run's settings")
    command.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE", help="change a setting")
    command.add_argument(
        "--device-gb", type=float, help="memory of the device in 10⁹ bytes, to check whether the run fits"
    )
    command.add_argument("--processes", type=int, default=1, help="number of GPUs (default: 1)")


def report(config: RunConfig, options: argparse.Namespace) -> str:
    """Return the command's output. Raises ValueError for settings or options that cannot be estimated."""
    if options.device_gb is not None and options.device_gb <= 0:
        raise ValueError(f"--device-gb must be above 0, not {options.device_gb:g}")
    if options.processes < 1:
        raise ValueError(f"--processes must be at least 1, not {options.processes}")
    if config.hosted.url:
        raise ValueError("hosted.url names a model that runs elsewhere: it needs no memory here")
    shape = find_shape(config.policy.model)
    if shape is None:
        sys.stderr.write(f"Reading the config.json of {config.policy.model} from the Hugging Face Hub …\n")
        shape = hub_shape(config.policy.model, config.policy.revision)
    if shape is None:
        raise ValueError(
            f"policy.model: the dimensions of {config.policy.model} are unknown, and the hub has no config.json of it "
            f"that can be read here: set a folder with its config.json, or one of {', '.join(KNOWN_CONFIGS)}"
        )
    total = None if options.device_gb is None else int(options.device_gb * GB)
    return _report(config, shape, total, options.processes)


def _report(config: RunConfig, shape: ModelShape, total: int | None, processes: int) -> str:
    gpu = _on_gpu(config, processes)
    rows = None
    if total is not None:
        rows = rows_that_fit(config, shape, gpu=gpu, free=total, total=total, processes=processes)
    estimate = estimate_memory(config, shape, gpu=gpu, rows=rows, total=total, processes=processes)
    device = "on a GPU" if gpu else "on a CPU"
    if not gpu and config.policy.device == "auto":
        device += " (this machine has no GPU; for the memory of one, set policy.device=cuda)"
    lines = [f"{config.policy.model}, {shape.parameters:,} parameters, {device}", ""]
    lines += [table(estimate), "", f"Peak: {gigabytes(estimate.peak)}, {STAGES[estimate.worst]}."]
    if total is not None:
        lines.append(_verdict(config, estimate, total, processes))
    if savings := suggested_settings(config, shape, gpu=gpu, rows=rows, total=total, processes=processes):
        lines += ["", "Possible savings, each alone:", *(f"  {saving}" for saving in savings)]
    return "\n".join(lines)


def _on_gpu(config: RunConfig, processes: int) -> bool:
    """True if the run would use GPUs. With policy.device=auto: several processes would, one if this machine has one."""
    if config.policy.device != "auto" or processes > 1:
        return config.policy.device != "cpu"
    import torch  # slow to import

    return torch.cuda.is_available()


def _verdict(config: RunConfig, estimate: MemoryEstimate, total: int, processes: int) -> str:
    if estimate.peak > total:
        return f"It does not fit {gigabytes(total)}: {gigabytes(estimate.peak - total)} too much."
    requested = played_at_once(config, processes)
    chunks = "" if estimate.rows >= requested else f" Of {requested} trajectories, {estimate.rows} play at a time."
    return f"It fits {gigabytes(total)} with {gigabytes(total - estimate.peak)} to spare.{chunks}"
