"""`python -m trainer change`: request other settings or a rewind of a run that trains, or that is resumed later."""

from __future__ import annotations

import argparse
import getpass
from collections.abc import Callable
from functools import partial
from pathlib import Path

from trainer.config.changes import parse_key, with_values
from trainer.config.files import load_yaml
from trainer.config.planned_rewinds import key_of
from trainer.config.run import RunConfig
from trainer.journal.change_requests import request_change
from trainer.journal.protocol import CONFIG_FILE


def prepare(arguments: argparse.Namespace) -> Callable[[], str]:
    """Check the request against the run's settings. Raises ValueError, OSError.

    Returns:
        The work that makes the request, and returns a message for the user.
    """
    folder: Path = arguments.folder
    if not (folder / CONFIG_FILE).is_file():
        raise ValueError(f"{folder} is no run's folder: it has no {CONFIG_FILE}")
    values: dict[str, str] = {}
    for pair in arguments.set:
        name, separator, text = pair.partition("=")
        if not separator:
            raise ValueError(f"--set takes section.field=value, not {pair!r}")
        parse_key(f"{name.strip()}@1")
        values[name.strip()] = text.strip()
    if not values and arguments.rewind_to is None:
        raise ValueError("name the new values: --set optimizer.policy_lr=5e-5, or a checkpoint: --rewind-to 40")
    config = load_yaml(folder / CONFIG_FILE)
    with_values(config, values)
    if arguments.rewind_to is not None:
        _check_rewind(folder, config, arguments.rewind_to)
    return partial(_request, folder, values, arguments.why, arguments.rewind_to)


def _check_rewind(folder: Path, config: RunConfig, target: int) -> None:
    """Raise ValueError if the run cannot go back to that checkpoint."""
    from trainer.loops.stages.checkpoints import checkpoint_iterations, get_path

    kept = [iteration for iteration in checkpoint_iterations(folder) if iteration >= 0]
    if target not in kept:
        listed = ", ".join(map(str, kept)) or "none"
        raise ValueError(f"{folder} keeps no checkpoint of iteration {target} (kept: {listed})")
    if kept[-1] >= config.iterations:
        raise ValueError(
            f"the run in {folder} has ended: begin a new one from the checkpoint, with --config {folder / CONFIG_FILE} "
            f"--set policy.model={get_path(folder, target)}"
        )
    type(config).model_validate(config.model_dump() | {"rewinds": {key_of(kept[-1]): str(target)}})


def _request(folder: Path, values: dict[str, str], why: str, rewind_to: int | None) -> str:
    request_change(folder, values, getpass.getuser(), why, rewind_to)
    listed = ", ".join(f"{name} = {value}" for name, value in values.items())
    when = "The run's log and journal say when it is done."
    if rewind_to is None:
        return f"Requested: {listed}, from the next iteration on. {when}"
    return f"Requested: back to the checkpoint of iteration {rewind_to}{listed and f', with {listed}'}. {when}"
