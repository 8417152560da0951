"""What a trainer may reach in the site's data folder: the files of its own run, and caches of models."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from django.conf import settings

from webapp.runs.untrusted_folder import UntrustedFolder
from webapp.worker.sandbox import landlock

VARIABLE = "ECHOSCOPE_TRAINER_SANDBOX"
MODES = ("auto", "required", "off")
TEMPORARY = "tmp"
"""Folder for temporary files in that of the run, where the system's contains the data folder."""
_CACHES = (".cache", ".config", ".triton")
MODELS_VARIABLE = "ECHOSCOPE_MODELS"
"""Folder of installed models, which all runs share: the only one of these variables that trainers may only read."""


def mode(environ: Mapping[str, str] = os.environ) -> str:
    """The operator's choice. Raises ValueError for anything else."""
    chosen = environ.get(VARIABLE, "").strip() or MODES[0]
    if chosen not in MODES:
        raise ValueError(f"{VARIABLE} must be one of {', '.join(MODES)}, not {chosen!r}.")
    return chosen


def command_prefix(
    data: Path, folder: Path, environment: Mapping[str, str], readable: Iterable[Path] = ()
) -> tuple[list[str], dict[str, str]]:
    """The beginning of a trainer's command that restricts it, and variables that it needs then.

    Both are empty where the operator switched it off, or the system has no Landlock and it is not required. The trainer
    then reaches the files of its account.

    Args:
        data: the site's data folder.
        folder: of the run, below it.
        environment: of the trainer; the paths in it that are below the data folder are open, as caches of models are.
        readable: further files and folders that the operator opened to runs.
    Raises:
        ValueError: the operator's choice is none, or cannot be met on this system.
    """
    chosen = mode()
    available = chosen != "off" and landlock.is_available()
    if chosen == "required" and not available:
        raise ValueError(f"{VARIABLE} is 'required', but this system has no Landlock: that takes Linux 5.19 or newer")
    if not available:
        return [], {}
    closed, own = data.resolve(), folder.resolve()
    variables: dict[str, str] = {}
    if closed.is_relative_to(Path(environment.get("TMPDIR") or tempfile.gettempdir()).resolve()):
        UntrustedFolder(own).make_folder(TEMPORARY)
        variables["TMPDIR"] = str(own / TEMPORARY)
    rules = landlock.Rules(
        closed=str(closed),
        writable=(str(own), *_caches(closed, environment)),
        readable=tuple(str(path) for path in map(Path.resolve, readable) if path.is_relative_to(closed)),
        listed=(str(Path.cwd()),) if closed.is_relative_to(Path.cwd()) else (),  # `python -m trainer` looks for modules
    )
    return [sys.executable, "-I", "-S", landlock.__file__, rules.dump()], variables


def require_protected(environment: Mapping[str, str], models: Path) -> None:
    """Raise ValueError if trainers could write to the models folder because a cache contains it."""
    data = Path(settings.ECHOSCOPE_DATA_DIR).resolve()
    for cache in _caches(data, environment):
        if models.resolve().is_relative_to(cache):
            raise ValueError(
                f"{MODELS_VARIABLE}={models} is in {cache}, where runs may write: choose a folder outside of "
                "ECHOSCOPE_CACHE and HF_HOME."
            )


def _caches(closed: Path, environment: Mapping[str, str]) -> list[str]:
    """Paths below the closed folder that the trainer's variables name, but none in the folder of runs or around it.

    A path in a run's folder may lead to another run by now: it is open to that run anyway, and to others never.
    """
    named = [Path(text) for name, text in environment.items() if name != MODELS_VARIABLE and text.startswith("/")]
    if (home := environment.get("HOME", "")).startswith("/"):
        named += [Path(home) / name for name in _CACHES]
    inside, runs = [], closed / "runs"
    for path in named:
        try:
            real = path.resolve()
        except (OSError, ValueError):
            continue
        around = runs.is_relative_to(real) or real.is_relative_to(runs)
        if real.is_relative_to(closed) and not around:
            inside.append(str(real))
    return sorted(set(inside))
