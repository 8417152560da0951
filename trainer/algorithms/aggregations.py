"""Registry of loss aggregations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class TokenLosses:
    """Losses of a (micro-)batch and the denominators of its update batch.

    Attributes:
        values: (B, T), 0 off the mask.
        counts: (B,) policy tokens of the sequence that each row belongs to, at least 1.
        total_tokens: policy tokens of the update batch, at least 1.
        total_sequences: sequences of the update batch with at least one policy token, at least 1.
        max_length: the most policy tokens that a sequence may have, a constant of the run, at least 1.
    """

    values: Tensor
    counts: Tensor
    total_tokens: int
    total_sequences: int
    max_length: int


def token_mean(losses: TokenLosses) -> Tensor:
    """Weight every token equally."""
    return losses.values.sum() / losses.total_tokens


def sequence_mean_token_sum(losses: TokenLosses) -> Tensor:
    """Average the token sums of all sequences."""
    return losses.values.sum() / losses.total_sequences


def sequence_mean_token_mean(losses: TokenLosses) -> Tensor:
    """Weight every sequence equally."""
    return (losses.values.sum(dim=1) / losses.counts).sum() / losses.total_sequences


def sequence_mean_token_sum_norm(losses: TokenLosses) -> Tensor:
    """Divide the sum of all tokens by a constant, so that no token counts more because its sequence is short.

    Source: Liu et al. 2025 (Dr. GRPO); as in verl, the sum is not divided by the number of sequences.
    """
    return losses.values.sum() / losses.max_length


AGGREGATIONS: dict[str, Callable[[TokenLosses], Tensor]] = {
    "token-mean": token_mean,
    "seq-mean-token-sum": sequence_mean_token_sum,
    "seq-mean-token-mean": sequence_mean_token_mean,
    "seq-mean-token-sum-norm": sequence_mean_token_sum_norm,
}
"""Values of `algorithm.aggregation`: a new one is a function and a line here. Each is linear in `values`, so that the
losses of micro-batches add up to the loss of their update batch."""
