"""Which rows of a batch go through the model in one forward pass, and in which process. Only row numbers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from trainer.policy.packing.shared_prefix import SharedPrefix, prefix_chains

MAX_KEYS_PER_TOKEN = 2
"""Rows of a piece may have so many times the tokens that it computes: attention keeps keys of all that each reads."""


def partition(lengths: Tensor, most: int, rank: int = 0, size: int = 1, *, even: bool = False) -> list[Tensor]:
    """Rows in pieces of like length, at most `most` padded tokens each; a longer row is a piece of its own.

    Args:
        lengths: (B,) tokens of each row.
        rank, size: which of how many processes asks; every row goes to one of them, and all get about as many tokens.
        even: give every process as many pieces, some of them without any row.
    Returns:
        the process's pieces, each (rows,) numbers of rows.
    """
    order = lengths.argsort(descending=True, stable=True)
    shares = [_split_by_length(order[number::size].tolist(), lengths, most) for number in range(size)]
    return _of_rank(shares, rank, even=even)


def partition_shared(
    lengths: Tensor,
    shared: Sequence[Sequence[SharedPrefix]],
    most: int,
    rank: int = 0,
    size: int = 1,
    *,
    even: bool = False,
) -> list[Tensor]:
    """As `deal`, for rows whose common beginnings are computed once: those that share stay together.

    A piece computes at most `most` tokens, padding aside, unless it is a single row.

    Args:
        shared: what rows have in common, in rounds (shared_prompts.py).
    """
    listed = lengths.tolist()
    known = prefix_chains(shared, len(listed))
    line = sorted(range(len(listed)), key=lambda row: ([part.members[0] for part in known[row]], -listed[row], row))
    shares = [_split(part, known, listed, most) for part in _balance(line, known, listed, size)]
    return _of_rank(shares, rank, even=even)


def _of_rank(shares: list[list[list[int]]], rank: int, *, even: bool) -> list[Tensor]:
    mine = shares[rank]
    missing = max(map(len, shares)) - len(mine) if even else 0
    return [torch.tensor(rows, dtype=torch.long) for rows in mine] + [torch.zeros(0, dtype=torch.long)] * missing


def _split_by_length(order: list[int], lengths: Tensor, most: int) -> list[list[int]]:
    """Rows in descending order of length, cut where a piece would grow too large."""
    pieces = []
    while order:
        fit = max(1, most // int(lengths[order[0]]))
        pieces.append(order[:fit])
        order = order[fit:]
    return pieces


def _added_tokens(row: int, before: int | None, known: list[list[SharedPrefix]], lengths: list[int]) -> int:
    """Tokens that a row adds to those before it in the line."""
    mine = [] if before is None else [part.stop for part in known[row] if part in known[before]]
    return lengths[row] - max(mine, default=0)


def _balance(line: list[int], known: list[list[SharedPrefix]], lengths: list[int], size: int) -> list[list[int]]:
    """The line cut into as many parts, each with about as many tokens to compute."""
    costs = [_added_tokens(row, before, known, lengths) for row, before in zip(line, [None, *line], strict=False)]
    parts: list[list[int]] = [[] for _ in range(size)]
    done, total = 0.0, sum(costs)
    for row, cost in zip(line, costs, strict=True):
        parts[min(size - 1, int((done + cost / 2) * size / total))].append(row)
        done += cost
    return parts


def _split(line: list[int], known: list[list[SharedPrefix]], lengths: list[int], most: int) -> list[list[int]]:
    """A line cut into pieces where one would grow too large."""
    pieces: list[list[int]] = []
    tokens = rows = 0
    for row in line:
        more = _added_tokens(row, pieces[-1][-1] if pieces else None, known, lengths)
        if not pieces or tokens + more > most or rows + lengths[row] > MAX_KEYS_PER_TOKEN * most:
            pieces.append([])
            tokens, rows, more = 0, 0, lengths[row]
        pieces[-1].append(row)
        tokens, rows = tokens + more, rows + lengths[row]
    return pieces
