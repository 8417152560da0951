"""Gradient norms of the terms of a loss, and the cosines between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

import torch
from torch import Tensor

from trainer.metrics.registry import finite


def gradient_terms(pieces: Iterable[Mapping[str, Tensor]], parameters: Sequence[Tensor]) -> dict[str, float]:
    """Compute gradient/*: norms of the terms' gradients and the cosines between them; no `.grad` is changed.

    Args:
        pieces: terms of each micro-batch's loss by name, weighted as in the loss; they add up to the batch's loss.
        parameters: trained parameters.
    Returns:
        `gradient/<term>` for each term and `gradient/cosine_<term>_<term>` for each pair, from −1 (opposed) to 1; a
        term without gradient has no cosine.
    """
    gradients: dict[str, Tensor] = {}
    for terms in pieces:
        for name, term in terms.items():
            gradient = _flat(term, parameters)
            gradients[name] = gradients[name] + gradient if name in gradients else gradient
    values: dict[str, float | None] = {f"gradient/{name}": float(vector.norm()) for name, vector in gradients.items()}
    for first, second in combinations(gradients, 2):
        length = float(gradients[first].norm()) * float(gradients[second].norm())
        cosine = float(gradients[first] @ gradients[second]) / length if length > 0 else None
        values[f"gradient/cosine_{first}_{second}"] = None if cosine is None else max(-1.0, min(1.0, cosine))
    return finite(values)


def _flat(term: Tensor, parameters: Sequence[Tensor]) -> Tensor:
    """Return the (P,) concatenated gradient of a scalar by all parameters; 0 where the term is independent of them."""
    if not term.requires_grad:
        return torch.cat([torch.zeros_like(parameter).flatten() for parameter in parameters]).float()
    gradients = torch.autograd.grad(term, parameters, retain_graph=True, allow_unused=True)
    parts = [
        torch.zeros_like(parameter) if gradient is None else gradient
        for parameter, gradient in zip(parameters, gradients, strict=True)
    ]
    return torch.cat([part.flatten() for part in parts]).float()
