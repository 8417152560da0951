"""python -m trainer memory: the budget of some settings as a table, and what would make it smaller. Loads no model."""

from __future__ import annotations

import argparse
from pathlib import Path

from trainer.config.files import preset_names
from trainer.config.run import RunConfig
from trainer.memory.advice import gigabytes, suggested_settings, table
from trainer.memory.estimate import GB, STAGES, MemoryEstimate, estimate_memory, on_gpu, played_at_once, rows_that_fit
from trainer.policy.shapes import KNOWN, ModelShape, shape_of


def arguments(command: argparse.ArgumentParser) -> None:
    """The command's grammar."""
    source = command.add_mutually_exclusive_group(required=True)
    source.add_argument("--preset", help=f"one of {', '.join(preset_names())}")
    source.add_argument("--config", type=Path, help="a YAML file with a run's settings")
    command.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE", help="change a setting")
    command.add_argument("--device-gb", type=float, help="memory of the device, in 10⁹ bytes: does it fit?")
    command.add_argument("--processes", type=int, default=1, help="GPUs that the run is spread over (default: 1)")


def report(config: RunConfig, given: argparse.Namespace) -> str:
    """What the command says. Raises ValueError where they, or the arguments, make no sense."""
    if given.device_gb is not None and given.device_gb <= 0:
        raise ValueError(f"--device-gb must be above 0, not {given.device_gb:g}")
    if given.processes < 1:
        raise ValueError(f"--processes must be at least 1, not {given.processes}")
    if config.hosted.url:
        raise ValueError("hosted.url names a model that runs elsewhere: it takes no memory here")
    shape = shape_of(config.policy.model)
    if shape is None:
        raise ValueError(
            f"policy.model: the sizes of {config.policy.model} are not known here: give a folder with its config.json, "
            f"or one of {', '.join(KNOWN)}"
        )
    total = None if given.device_gb is None else int(given.device_gb * GB)
    return _told(config, shape, total, given.processes)


def _told(config: RunConfig, shape: ModelShape, total: int | None, processes: int) -> str:
    gpu = on_gpu(config, shape)
    rows = None
    if total is not None:
        rows = rows_that_fit(config, shape, gpu=gpu, free=total, total=total, processes=processes)
    found = estimate_memory(config, shape, gpu=gpu, rows=rows, total=total, processes=processes)
    lines = [f"{config.policy.model}, {shape.parameters:,} parameters, {'on a GPU' if gpu else 'on a CPU'}", ""]
    lines += [table(found), "", f"Most at once: {gigabytes(found.peak)}, {STAGES[found.worst]}."]
    if total is not None:
        lines.append(_verdict(config, found, total, processes))
    if less := suggested_settings(config, shape, gpu=gpu, rows=rows, total=total, processes=processes):
        lines += ["", "What would save, each alone:", *(f"  {saving}" for saving in less)]
    return "\n".join(lines)


def _verdict(config: RunConfig, found: MemoryEstimate, total: int, processes: int) -> str:
    if found.peak > total:
        return f"It does not fit {gigabytes(total)}: {gigabytes(found.peak - total)} too much."
    wanted = played_at_once(config, processes)
    waves = "" if found.rows >= wanted else f" Of {wanted} trajectories, {found.rows} are played at a time."
    return f"It fits {gigabytes(total)} with {gigabytes(total - found.peak)} to spare.{waves}"
