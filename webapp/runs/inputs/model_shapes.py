"""Shapes of models, as far as the site knows them; only folders that runs may name are read."""

from __future__ import annotations

from trainer.config.run import POCKET
from trainer.policy.shapes import ModelShape, find_shape, named_shape
from webapp.runs.inputs import run_models, stored_models
from webapp.runs.inputs.folders import MODELS
from webapp.runs.inputs.hub_shapes import hub_shape, known_hub_shape
from webapp.runs.models import Run

MAX_ANCESTORS = 20
"""Number of runs that continue each other before the search for their first model ends."""


def model_shape(model: str, revision: str = "", *, look_up: bool = False) -> ModelShape | None:
    """Return the shape of a `policy.model` of this site; None if it is unknown. Checkpoints have their run's shape.

    Args:
        look_up: True to look up a model unknown to the site on the Hugging Face Hub, which can take seconds.
    """
    for _ in range(MAX_ANCESTORS):
        named = run_models.parse(model)
        if named is None:
            break
        policy = Run.objects.filter(slug=named.slug).values_list("config__policy", flat=True).first() or {}
        model, revision = policy.get("model", ""), policy.get("revision", "")
    if model == POCKET or (model and not MODELS.problem(model)):
        return find_shape(model)
    if name := stored_models.stored_name(model):
        return stored_models.shape(name)
    return named_shape(model) or (hub_shape if look_up else known_hub_shape)(model, revision)
