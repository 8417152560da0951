"""How strongly each term of a loss pulls, and whether the terms pull the same way: gradients taken term by term.

They are taken apart from the update: no `.grad` is touched. Which terms there are is the learner's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

import torch
from torch import Tensor

from trainer.metrics.registry import finite


def gradient_terms(pieces: Iterable[Mapping[str, Tensor]], parameters: Sequence[Tensor]) -> dict[str, float]:
    """gradient/*: norms of the terms' gradients and the cosines between them.

    Args:
        pieces: for each micro-batch the scalar terms of its loss by name, weighted as they are in the loss; the terms
            of the pieces add up to the terms of the batch.
        parameters: what is trained.
    Returns:
        `gradient/<term>` for each term and `gradient/cosine_<term>_<term>` for each pair, from −1 (against each other)
        to 1; a term without any gradient has no direction and so no cosine.
    """
    found: dict[str, Tensor] = {}
    for terms in pieces:
        for name, term in terms.items():
            gradient = _flat(term, parameters)
            found[name] = found[name] + gradient if name in found else gradient
    values: dict[str, float | None] = {f"gradient/{name}": float(vector.norm()) for name, vector in found.items()}
    for one, other in combinations(found, 2):
        length = float(found[one].norm()) * float(found[other].norm())
        cosine = float(found[one] @ found[other]) / length if length > 0 else None
        values[f"gradient/cosine_{one}_{other}"] = None if cosine is None else max(-1.0, min(1.0, cosine))
    return finite(values)


def _flat(term: Tensor, parameters: Sequence[Tensor]) -> Tensor:
    """(P,) gradient of a scalar by all parameters, one after the other; 0 where the term does not depend on them."""
    if not term.requires_grad:
        return torch.cat([torch.zeros_like(parameter).flatten() for parameter in parameters]).float()
    gradients = torch.autograd.grad(term, parameters, retain_graph=True, allow_unused=True)
    parts = [
        torch.zeros_like(parameter) if gradient is None else gradient
        for parameter, gradient in zip(parameters, gradients, strict=True)
    ]
    return torch.cat([part.flatten() for part in parts]).float()
