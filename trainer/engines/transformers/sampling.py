"""Token sampling from logits: a pure function of uniform numbers."""

from __future__ import annotations

import torch
from torch import Tensor

from trainer.engines.sampler import SamplingParams


def sample_tokens(logits: Tensor, uniform: Tensor, params: SamplingParams) -> tuple[Tensor, Tensor, Tensor]:
    """Sample tokens by inverse transform.

    Args:
        logits: (n, vocabulary), fp32.
        uniform: (n,) in [0, 1), one per row; unused at temperature 0.
        params: the temperature.
    Returns:
        (n,) token ids; (n,) their log-probabilities and (n,) the entropies of the tempered distribution, nats.
    """
    whole = torch.log_softmax(logits / params.temperature if params.temperature > 0 else logits, dim=-1)
    probabilities = whole.exp()
    entropies = -(probabilities * whole).sum(-1)
    if params.temperature == 0:
        tokens = logits.argmax(-1)
    else:
        cumulative = probabilities.cumsum(-1)
        mass = cumulative[:, -1:]
        # Rounding must not lift the target to the whole mass: beyond it are only tokens of probability 0.
        target = torch.minimum(uniform[:, None] * mass, torch.nextafter(mass, torch.zeros_like(mass)))
        tokens = torch.searchsorted(cumulative, target, right=True)[:, 0].clamp_(max=logits.shape[-1] - 1)
    return tokens, whole.gather(-1, tokens[:, None])[:, 0], entropies
