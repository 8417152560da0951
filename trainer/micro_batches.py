"""Which rows of a batch go through the model in one forward pass, and in which process. Only row numbers."""

from __future__ import annotations

import torch
from torch import Tensor


def deal(lengths: Tensor, most: int, rank: int = 0, size: int = 1, *, even: bool = False) -> list[Tensor]:
    """Rows in pieces of like length, at most `most` padded tokens each; a longer row is a piece of its own.

    Args:
        lengths: (B,) tokens of each row.
        rank, size: which of how many processes asks; every row goes to one of them, and all get about as many tokens.
        even: give every process as many pieces, some of them without any row.
    Returns:
        the process's pieces, each (rows,) numbers of rows.
    """
    order = lengths.argsort(descending=True, stable=True)
    shares = [_pieces(order[number::size].tolist(), lengths, most) for number in range(size if even else rank + 1)]
    mine = shares[rank]
    missing = max(map(len, shares)) - len(mine) if even else 0
    return [torch.tensor(rows, dtype=torch.long) for rows in mine] + [torch.zeros(0, dtype=torch.long)] * missing


def _pieces(order: list[int], lengths: Tensor, most: int) -> list[list[int]]:
    """Rows in descending order of length, cut where a piece would grow too large."""
    pieces = []
    while order:
        fit = max(1, most // int(lengths[order[0]]))
        pieces.append(order[:fit])
        order = order[fit:]
    return pieces
