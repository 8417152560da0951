"""Paths named by a trainer's variables: paths that it may read, and caches and folders that it may write to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from trainer.config.engine import WEIGHTS_VARIABLE
from trainer.config.resources import RAY_ADDRESS_VARIABLE

MODELS_VARIABLE = "ECHOSCOPE_MODELS"
"""Folder of installed models, which all runs share and read."""
_WRITABLE = re.compile(r".*_CACHE(_DIR|_PATH|_ROOT)?")
_WRITABLE_NAMES = frozenset(
    {"HF_HOME", "TORCH_HOME", "TRITON_HOME", "TRACKIO_DIR", "WANDB_DIR", "WANDB_DATA_DIR", "MLFLOW_TRACKING_URI"}
) | {WEIGHTS_VARIABLE}
_PRIVATE = frozenset({"PATH", "HOME", "TMPDIR", "TMP", "TEMP", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"})
"""Variables with folders that are replaced by private ones, or belong to people."""
_PATH = re.compile(r"(?:^|[\s,;:=]|file://)(/(?!/)[^\s,;:]*)")


def readable(environment: Mapping[str, str]) -> Iterator[Path]:
    """Yield absolute paths in the variables: certificates, environments' data, libraries, the operator's additions."""
    for name, value in environment.items():
        if name not in _PRIVATE:
            yield from paths_in(value)


def writable(environment: Mapping[str, str]) -> Iterator[Path]:
    """Yield the folders of caches and trackers that the variables name."""
    for name, value in environment.items():
        if name in _WRITABLE_NAMES or _WRITABLE.fullmatch(name):
            yield from paths_in(value)


def ray_folder(environment: Mapping[str, str]) -> list[Path]:
    """Return the folder in which the nodes of the worker's Ray cluster keep sockets and logs, for drivers of its runs.

    A driver gains nothing by changing it: the cluster's actors run any code that the driver sends.
    """
    if RAY_ADDRESS_VARIABLE not in environment:
        return []
    temporary = environment.get("RAY_TMPDIR") or environment.get("TMPDIR") or "/tmp"
    return [Path(temporary, "ray").resolve()]


def paths_in(text: str) -> Iterator[Path]:
    """Yield the absolute paths in a list of paths or `file:` addresses, and the text as a whole if it is a path."""
    if text.startswith("/") and "\0" not in text:
        yield Path(text)
    yield from (Path(path) for path in _PATH.findall(text) if "\0" not in path)
