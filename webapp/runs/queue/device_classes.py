"""Device classes, the names of queues: those that a worker serves, and the default class of a run."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence

from trainer.config.run import RunConfig
from webapp.runs.inputs.model_shapes import model_shape

ANY, CPU, GPU, CLUSTER = "training", "cpu", "gpu", "cluster"
"""Any worker, workers without GPU, workers with GPUs, workers of a Ray cluster."""
VARIABLE = "ECHOSCOPE_DEVICE_CLASS"
NAME = r"^[A-Za-z0-9_.-]+$"
LARGE = 50_000_000
"""Number of parameters above which a run with device=auto prefers a GPU."""


def class_of_worker(gpus: int) -> str:
    """Return the class of this machine: set by the operator, or else by its GPUs. Raises ValueError."""
    class_name = os.environ.get(VARIABLE, "").strip()
    if class_name and (not re.match(NAME, class_name) or len(class_name) > 100):
        raise ValueError(f"{VARIABLE} is a name of letters, digits, dot, dash and underscore, not {class_name!r}.")
    return class_name or (GPU if gpus else CPU)


def served_classes(own: str, gpus: int, *, cluster: bool = False) -> list[str]:
    """Return the classes that a worker serves: its own, its hardware's, CLUSTER if it has a Ray cluster, and ANY."""
    return list(dict.fromkeys([ANY, GPU if gpus else CPU, *([CLUSTER] if cluster else []), own]))


def suggested_class(config: RunConfig, available: Collection[str]) -> str:
    """Return the default class of a configuration while workers of the classes `available` are running.

    Runs with Ray actors require a cluster, and policy.device=cuda requires a GPU. Otherwise large models prefer GPUs
    and small ones leave them free. Without a worker of the preferred class, any will do.
    """
    if config.cluster.uses_ray:
        return CLUSTER
    if config.policy.device == "cuda" and not config.hosted.url:
        return GPU
    preferred = CPU if config.policy.device == "cpu" or not _large(config) else GPU
    return preferred if preferred in available else ANY


def default_gpus(config: RunConfig, queue: str) -> int:
    """Return the default number of GPUs of a configuration in that class: one if it can use one.

    GPUs of Ray actors are not counted, since they belong to the cluster, not to the worker's machine.
    """
    if not config.cluster.driver_computes(config.kind):
        return 0
    return 0 if config.policy.device == "cpu" or config.hosted.url or queue == CPU else 1


def class_choices(available: Collection[str]) -> Sequence[str]:
    """Return the choices of the launch form, standard classes first."""
    return list(dict.fromkeys([ANY, CPU, GPU, *sorted(available)]))


def _large(config: RunConfig) -> bool:
    if config.hosted.url:
        return False
    shape = model_shape(config.policy.model, config.policy.revision)
    return shape is None or shape.parameters > LARGE
