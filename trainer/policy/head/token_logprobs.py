"""Log-probabilities and entropies of given tokens from hidden states, in chunks of tokens.

Logits, tokens × vocabulary in fp32, would be the largest tensor of an update: 16k tokens with a vocabulary of 152k are
ten gigabytes, and their gradient takes the same again. Here at most one chunk of them exists at any time, in the
forward pass and in the backward pass, which recomputes them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import nll_loss

from trainer.algorithms.losses import entropy_from_logprobs
from trainer.policy.head import logit_kernels
from trainer.policy.head.output_head import ScaledHead

MAX_LOGITS = 2**25
"""Number of logits in a chunk: 128 MiB in fp32."""
_BYTES = 16
"""Memory of a logit and its results in PyTorch's operations; `MAX_LOGITS` need 512 MiB."""


def max_logits(like: Tensor) -> int:
    """Return the number of logits in a chunk, for hidden states like these.

    Compiled, only logits and their gradient are in memory, so that chunks of the same memory are larger. Each chunk
    adds to the whole gradient of the output layer, which takes long on a GPU.
    """
    if logit_kernels.score.is_compiled(like.device):
        return MAX_LOGITS * _BYTES // (2 * like.element_size())
    return MAX_LOGITS


def chunk_size(vocabulary: int, largest: int = MAX_LOGITS) -> int:
    """Return the number of tokens in a chunk, at least 1."""
    return max(1, largest // vocabulary)


class _ChunkedLogprobs(torch.autograd.Function):
    """forward: (M, H) hidden, (V, H) weight, (M,) ids → (M,) log-probabilities, (M,) entropies."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, ids: Tensor, temperature: float, largest: int
    ) -> tuple[Tensor, Tensor]:
        rows = chunk_size(len(weight), largest)
        normalizer = hidden.new_empty(len(hidden), dtype=torch.float32)
        logprobs, entropies = torch.empty_like(normalizer), torch.empty_like(normalizer)
        for start in range(0, len(hidden), rows):
            part = slice(start, start + rows)
            logits = torch.mm(hidden[part], weight.t())
            normalizer[part], logprobs[part], entropies[part] = logit_kernels.score(logits, ids[part], temperature)
        ctx.save_for_backward(hidden, weight, ids, normalizer, entropies)
        ctx.temperature, ctx.rows = temperature, rows
        return logprobs, entropies

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, ids, *scores = ctx.saved_tensors
        to_hidden = torch.empty_like(hidden) if ctx.needs_input_grad[0] else None
        to_weight = torch.zeros_like(weight, dtype=torch.float32) if ctx.needs_input_grad[1] else None
        for start in range(0, len(hidden), ctx.rows):
            part = slice(start, start + ctx.rows)
            logits = torch.mm(hidden[part], weight.t())
            given = [values[part] for values in (*scores, *gradients)]
            of_logits = logit_kernels.gradient(logits, ids[part], ctx.temperature, *given)
            if to_hidden is not None:
                to_hidden[part] = torch.mm(of_logits, weight)
            if to_weight is not None:
                to_weight.add_(torch.mm(of_logits.t(), hidden[part]))
        return to_hidden, None if to_weight is None else to_weight.to(weight.dtype), None, None, None


def chunked_token_logprobs(
    hidden: Tensor, weight: Tensor, ids: Tensor, temperature: float = 1.0, largest: int | None = None
) -> tuple[Tensor, Tensor]:
    """Compute the log-probabilities of the given tokens and the entropies of their distributions.

    Args:
        hidden: (M, H) input of the output layer, any floating type.
        weight: (V, H) weight of the output layer, which has no bias.
        ids: (M,) token ids in 0 … V − 1.
        temperature: divisor of the logits, above 0.
        largest: logits that may exist at once; None: `max_logits`.
    Returns:
        (M,) log-probabilities and (M,) entropies in nats, fp32, differentiable in `hidden` and `weight`.
    """
    limit = max_logits(hidden) if largest is None else largest
    logprobs, entropies = _ChunkedLogprobs.apply(hidden, weight, ids, temperature, limit)  # type: ignore[no-untyped-call]
    return logprobs, entropies


def head_logprobs(head: nn.Module, hidden: Tensor, ids: Tensor, temperature: float = 1.0) -> tuple[Tensor, Tensor]:
    """`chunked_token_logprobs` for any output layer; few logits are computed at once, which is faster.

    Args:
        head: the output layer; only a linear layer without bias is computed in chunks.
        hidden: (M, H).
        ids: (M,).
    """
    if isinstance(head, ScaledHead):
        return head_logprobs(head.layer, hidden, ids, temperature / head.scale)
    if (
        isinstance(head, nn.Linear)
        and getattr(head, "bias", None) is None
        and len(hidden) * head.out_features > max_logits(hidden)
    ):
        return chunked_token_logprobs(hidden, head.weight, ids, temperature)
    logits = head(hidden).float()
    logprobs = torch.log_softmax(logits if temperature == 1 else logits / temperature, dim=-1)
    # A gather would return a view, which FSDP2 warns of: its hooks on outputs cannot follow changes in place.
    return -nll_loss(logprobs, ids, reduction="none"), entropy_from_logprobs(logprobs)
