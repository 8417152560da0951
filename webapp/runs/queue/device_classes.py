"""Device classes: what a worker serves by its hardware and its operator's words, and what a run asks for by itself.

A class is the name of a queue. Who goes next in it is decided in line.py.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence

from trainer.config.run import RunConfig
from trainer.policy.shapes import shape_of

ANY, CPU, GPU = "training", "cpu", "gpu"
"""Any worker at all, those without a GPU, those with at least one."""
VARIABLE = "ECHOSCOPE_DEVICE_CLASS"
NAME = r"^[A-Za-z0-9_.-]+$"
LARGE = 50_000_000
"""Parameters above which a run that may choose goes where a GPU is."""


def class_of_worker(gpus: int) -> str:
    """The class of this machine: as its operator named it, else by whether it has GPUs. Raises ValueError."""
    named = os.environ.get(VARIABLE, "").strip()
    if named and (not re.match(NAME, named) or len(named) > 100):
        raise ValueError(f"{VARIABLE} is a name of letters, digits, dot, dash and underscore, not {named!r}.")
    return named or (GPU if gpus else CPU)


def served_classes(own: str, gpus: int) -> list[str]:
    """The classes that a worker of that class serves: its own, that of its hardware, and whatever suits any."""
    return list(dict.fromkeys([ANY, GPU if gpus else CPU, own]))


def suggested_class(config: RunConfig, known: Collection[str]) -> str:
    """The class that a configuration asks for by itself, where workers of the classes `known` are running.

    Only policy.device=cuda insists on a GPU. What may choose goes to GPUs if its model is large, and else leaves them
    to others; where there is no worker of that sort, any will do.
    """
    if config.policy.device == "cuda" and not config.hosted.url:
        return GPU
    preferred = CPU if config.policy.device == "cpu" or not _large(config) else GPU
    return preferred if preferred in known else ANY


def wanted_gpus(config: RunConfig, queue: str) -> int:
    """How many GPUs a configuration asks for by itself in that class: one, where it can use one."""
    return 0 if config.policy.device == "cpu" or config.hosted.url or queue == CPU else 1


def asked_classes(known: Collection[str]) -> Sequence[str]:
    """What people may choose from, the usual ones first."""
    return list(dict.fromkeys([ANY, CPU, GPU, *sorted(known)]))


def _large(config: RunConfig) -> bool:
    if config.hosted.url:
        return False
    shape = shape_of(config.policy.model)
    return shape is None or shape.parameters > LARGE
