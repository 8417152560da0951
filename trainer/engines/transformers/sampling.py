"""Token sampling from logits: temperature, top-k, top-p and min-p, as pure functions of uniform numbers."""

from __future__ import annotations

import torch
from torch import Tensor

from trainer.engines.sampler import SamplingParams


def sample_tokens(logits: Tensor, uniform: Tensor, params: SamplingParams) -> tuple[Tensor, Tensor, Tensor]:
    """Sample tokens by inverse transform.

    Args:
        logits: (n, vocabulary), fp32.
        uniform: (n,) in [0, 1), one per row; unused at temperature 0.
        params: temperature and filters.
    Returns:
        (n,) token ids; (n,) their log-probabilities and (n,) the entropies of the tempered, otherwise unfiltered
        distribution, nats.
    """
    whole = torch.log_softmax(logits / params.temperature if params.temperature > 0 else logits, dim=-1)
    probabilities = whole.exp()
    entropies = -(probabilities * whole).sum(-1)
    if params.temperature == 0:
        tokens = logits.argmax(-1)
    else:
        cumulative = apply_filters(probabilities, params).cumsum(-1)
        mass = cumulative[:, -1:]
        # Rounding must not lift the target to the whole mass: beyond it are only filtered-out tokens.
        target = torch.minimum(uniform[:, None] * mass, torch.nextafter(mass, torch.zeros_like(mass)))
        tokens = torch.searchsorted(cumulative, target, right=True)[:, 0].clamp_(max=logits.shape[-1] - 1)
    return tokens, whole.gather(-1, tokens[:, None])[:, 0], entropies


def apply_filters(probabilities: Tensor, params: SamplingParams) -> Tensor:
    """Set (n, vocabulary) probabilities of tokens outside top-k, top-p and min-p to zero (not renormalised)."""
    if params.min_p:
        probabilities = probabilities.where(probabilities >= params.min_p * probabilities.amax(-1, keepdim=True), 0)
    if params.top_k:
        least = probabilities.topk(min(params.top_k, probabilities.shape[-1]), dim=-1).values[:, -1:]
        probabilities = probabilities.where(probabilities >= least, 0)
    if params.top_p < 1:
        ordered, index = probabilities.sort(dim=-1, descending=True)
        outside = ordered.cumsum(-1) - ordered >= params.top_p * ordered.sum(-1, keepdim=True)
        probabilities = probabilities.masked_fill(outside.scatter(-1, index, outside), 0)
    return probabilities
