"""Models that runs name without a slash: those of the catalogue, and others in the stores of the workers."""

from __future__ import annotations

import re

from trainer.config.catalogue import catalogue
from trainer.config.run import POCKET
from trainer.policy import shapes
from trainer.policy.shapes import ModelShape
from webapp.runs.models import StoredModel

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def stored_name(model: str) -> str:
    """Return the name of the model in a store that a `policy.model` refers to; empty if it refers to anything else."""
    return model if model != POCKET and _NAME.fullmatch(model) else ""


def problem(name: str) -> str:
    """Return the reason why no run may name this model; empty if it is in the catalogue or installed on a worker."""
    if name in catalogue() or StoredModel.objects.filter(name=name).exists():
        return ""
    return (
        f"no model {name!r} is in the catalogue or installed on a worker. The catalogue has {', '.join(catalogue())}; "
        "other models are named by their hub id, such as Qwen/Qwen2.5-0.5B-Instruct"
    )


def shape(name: str) -> ModelShape | None:
    """Return the shape of a model of the catalogue or a store; None if it is unknown."""
    if entry := catalogue().get(name):
        return shapes.read(entry.config)
    config = StoredModel.objects.filter(name=name).exclude(shape={}).values_list("shape", flat=True).first()
    return shapes.read(config) if config else None
