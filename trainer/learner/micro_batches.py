"""Partition of the rows of a batch into micro-batches and among processes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from trainer.policy.packing.shared_prefix import SharedPrefix, prefix_chains

MAX_KEYS_PER_TOKEN = 2
"""Maximum ratio of the rows' tokens to the computed ones: attention keeps the keys of all tokens in a row."""
MAX_CPU_TOKENS = 4096
"""Maximum tokens of a micro-batch on a CPU: activations of larger ones are evicted from its cache."""


def token_limit(configured: int, device: torch.device) -> int:
    """Return the maximum tokens of a micro-batch on a device, at most the setting `optimizer.micro_batch_tokens`."""
    return min(configured, MAX_CPU_TOKENS) if device.type == "cpu" else configured


def partition(lengths: Tensor, max_tokens: int, rank: int = 0, size: int = 1, *, even: bool = False) -> list[Tensor]:
    """Return micro-batches of rows of similar length, at most `max_tokens` padded tokens each unless one row is longer.

    Args:
        lengths: (B,) tokens of each row.
        rank, size: this process and the number of processes; each gets some of the rows, with about equal tokens.
        even: give every process the same number of micro-batches, some of them empty.
    Returns:
        This process's micro-batches: (rows,) indices each.
    """
    order = lengths.argsort(descending=True, stable=True)
    shares = [_split_by_length(order[number::size].tolist(), lengths, max_tokens) for number in range(size)]
    return _of_rank(shares, rank, even=even)


def partition_shared(
    lengths: Tensor,
    shared: Sequence[Sequence[SharedPrefix]],
    max_tokens: int,
    rank: int = 0,
    size: int = 1,
    *,
    even: bool = False,
) -> list[Tensor]:
    """Partition like `partition`, but keep rows with a shared prefix together, which is computed once.

    A micro-batch computes at most `max_tokens` tokens, without padding, unless it is a single row.

    Args:
        shared: prefixes that rows share, in rounds.
    """
    listed = lengths.tolist()
    chains = prefix_chains(shared, len(listed))
    line = sorted(range(len(listed)), key=lambda row: ([part.members[0] for part in chains[row]], -listed[row], row))
    shares = [_split(part, chains, listed, max_tokens) for part in _balance(line, chains, listed, size)]
    return _of_rank(shares, rank, even=even)


def _of_rank(shares: list[list[list[int]]], rank: int, *, even: bool) -> list[Tensor]:
    micro_batches = shares[rank]
    missing = max(map(len, shares)) - len(micro_batches) if even else 0
    return [torch.tensor(rows, dtype=torch.long) for rows in micro_batches] + [
        torch.zeros(0, dtype=torch.long)
    ] * missing


def _split_by_length(order: list[int], lengths: Tensor, max_tokens: int) -> list[list[int]]:
    """Split rows, sorted by descending length, at the size limit of micro-batches."""
    pieces = []
    while order:
        fit = max(1, max_tokens // int(lengths[order[0]]))
        pieces.append(order[:fit])
        order = order[fit:]
    return pieces


def _added_tokens(row: int, previous: int | None, chains: list[list[SharedPrefix]], lengths: list[int]) -> int:
    """Count the tokens to compute that a row adds after the previous row."""
    shared = [] if previous is None else [part.stop for part in chains[row] if part in chains[previous]]
    return lengths[row] - max(shared, default=0)


def _balance(line: list[int], chains: list[list[SharedPrefix]], lengths: list[int], size: int) -> list[list[int]]:
    """Split ordered rows into `size` parts with about equal tokens to compute."""
    costs = [_added_tokens(row, previous, chains, lengths) for row, previous in zip(line, [None, *line], strict=False)]
    parts: list[list[int]] = [[] for _ in range(size)]
    done, total = 0.0, sum(costs)
    for row, cost in zip(line, costs, strict=True):
        parts[min(size - 1, int((done + cost / 2) * size / total))].append(row)
        done += cost
    return parts


def _split(line: list[int], chains: list[list[SharedPrefix]], lengths: list[int], max_tokens: int) -> list[list[int]]:
    """Split ordered rows at the size limit of micro-batches."""
    pieces: list[list[int]] = []
    tokens = rows = 0
    for row in line:
        more = _added_tokens(row, pieces[-1][-1] if pieces else None, chains, lengths)
        if not pieces or tokens + more > max_tokens or rows + lengths[row] > MAX_KEYS_PER_TOKEN * max_tokens:
            pieces.append([])
            tokens, rows, more = 0, 0, lengths[row]
        pieces[-1].append(row)
        tokens, rows = tokens + more, rows + lengths[row]
    return pieces
