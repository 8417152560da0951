"""Attention over packed rows in one FlexAttention call: a tree mask over the long row instead of a call per length.

Every token of the long row belongs to a part of one or several rows: a shared prefix, or the rest after it. Parts form
a tree. If the rows are ordered so that the rows of a part are adjacent, a part is an interval of row numbers, and a
token attends to an earlier one exactly if the first row of its own part is in the other's interval.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, flex_attention
from torch.nn.functional import scaled_dot_product_attention

from trainer.policy.packing.host_transfer import to_device
from trainer.policy.packing.shared_prefix import SharedPrefix, prefix_chains

_MAX_COMPILATIONS = 32
BLOCK = 128
"""Number of tokens in a block of the mask: blocks that no token attends to are skipped."""


@dataclass(frozen=True)
class FlexMask:
    """Mask of the keys that the tokens of a long row attend to.

    Attributes:
        enter, leave: (M,) int32, first row of each token's part and the row after its last one.
        queries: (W,) int32, ascending positions of the tokens that attend.
        kv_number, kv_index: (1, 1, Q) and (1, 1, Q, K) blocks of keys for each block of queries, if some of its tokens
            attend to some keys.
        full_number, full_index: blocks of keys in which all tokens attend to all keys.
        blocks: the mask in FlexAttention's format.
    """

    enter: Tensor
    leave: Tensor
    queries: Tensor
    kv_number: Tensor
    kv_index: Tensor
    full_number: Tensor
    full_index: Tensor
    blocks: BlockMask

    @classmethod
    def of(cls, enter: Tensor, leave: Tensor, queries: Tensor | None = None) -> FlexMask:
        """Create the mask of given intervals, on the CPU; `queries` None: all tokens attend."""
        queries = torch.arange(len(enter)) if queries is None else queries
        some, every = _blocks(enter, leave, queries)
        return cls._made(enter.int(), leave.int(), queries.int(), *_ordered(some & ~every), *_ordered(every))

    @classmethod
    def _made(
        cls,
        enter: Tensor,
        leave: Tensor,
        queries: Tensor,
        kv_number: Tensor,
        kv_index: Tensor,
        full_number: Tensor,
        full_index: Tensor,
    ) -> FlexMask:
        def attends(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            position = queries[query]
            first = enter[position]
            return (enter[key] <= first) & (first < leave[key]) & (key <= position)

        blocks = BlockMask.from_kv_blocks(
            kv_number,
            kv_index,
            full_number,
            full_index,
            BLOCK_SIZE=BLOCK,
            mask_mod=cast(Any, attends),
            seq_lengths=(len(queries), len(enter)),
        )
        return cls(enter, leave, queries, kv_number, kv_index, full_number, full_index, blocks)

    def to(self, device: torch.device) -> FlexMask:
        """Move the mask to a device."""
        tensors = (self.enter, self.leave, self.queries)
        numbers = (self.kv_number, self.kv_index, self.full_number, self.full_index)
        return self._made(*(to_device(tensor, device) for tensor in tensors + numbers))

    def attend(self, query: Tensor, key: Tensor, value: Tensor, scaling: float | None) -> Tensor:
        """Attend from (1, W, heads, D) queries to (1, M, key-value heads, D) keys and values, to (1, W, heads, D)."""
        q, k, v = (part.transpose(1, 2) for part in (query, key, value))
        grouped = q.shape[1] != k.shape[1]
        if query.is_cuda:
            read = _compiled()(q, k, v, block_mask=self.blocks, scale=scaling, enable_gqa=grouped)
        else:
            mask = self.dense()[None, None]
            read = scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scaling, enable_gqa=grouped)
        return cast(Tensor, read).transpose(1, 2)

    def dense(self) -> Tensor:
        """Return the (W, M) boolean mask; for devices without gradients of FlexAttention."""
        first = self.enter[self.queries][:, None]
        places = torch.arange(len(self.enter), device=self.enter.device)
        return (self.enter <= first) & (first < self.leave) & (places <= self.queries[:, None])


@cache
def _compiled() -> Any:
    """Compile FlexAttention, which otherwise materialises all scores.

    It is recompiled with and without gradients, for all tokens and for targets, and for the first shape before the
    others: more often than PyTorch allows before it gives up and computes without compilation.
    """
    config: Any = importlib.import_module("torch._dynamo.config")
    config.recompile_limit = max(config.recompile_limit, _MAX_COMPILATIONS)
    return torch.compile(flex_attention)


def intervals(
    parts: Sequence[SharedPrefix], shared: Sequence[Sequence[SharedPrefix]], rows: int
) -> tuple[Tensor, Tensor]:
    """Return (M,) first and last-plus-one row number of each token's part, with rows numbered along the tree.

    Args:
        parts: parts in the order of the long row.
        shared: prefixes that rows share, in rounds.
        rows: number of rows.
    """
    chains = prefix_chains(shared, rows)
    order = sorted(range(rows), key=lambda row: ([prefix.members[0] for prefix in chains[row]], row))
    number = {row: index for index, row in enumerate(order)}
    members = [[number[row] for row in part.members] for part in parts]
    widths = torch.tensor([part.stop - part.start for part in parts])
    first, last = torch.tensor([min(rows_) for rows_ in members]), torch.tensor([max(rows_) for rows_ in members])
    return first.repeat_interleave(widths), (last + 1).repeat_interleave(widths)


def _blocks(enter: Tensor, leave: Tensor, queries: Tensor) -> tuple[Tensor, Tensor]:
    """Return (Q, K) whether some token of a block of queries attends to one in a block of keys, and whether all do."""
    begin, stop, q_block = _runs(enter[queries], leave[queries])
    k_begin, k_stop, k_block = _runs(enter, leave)
    first = enter[queries][begin][:, None]
    inside = (enter[k_begin] <= first) & (first < leave[k_begin])
    some = inside & (k_begin <= queries[stop - 1][:, None])
    every = inside & (k_stop - 1 <= queries[begin][:, None])
    shape = -(-len(queries) // BLOCK), -(-len(enter) // BLOCK)
    cells = (q_block[:, None] * shape[1] + k_block).flatten()
    any_ = torch.zeros(shape[0] * shape[1], dtype=torch.bool)
    any_[cells[some.flatten()]] = True
    all_ = torch.ones_like(any_)
    all_[cells[~every.flatten()]] = False
    any_, all_ = any_.view(shape), all_.view(shape)
    if len(queries) % BLOCK:
        all_[-1] = False
    if len(enter) % BLOCK:
        all_[:, -1] = False
    return any_, all_


def _runs(enter: Tensor, leave: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return first index, end and block of the longest stretches within a block that belong to one part."""
    change = torch.ones(len(enter), dtype=torch.bool)
    change[1:] = (enter[1:] != enter[:-1]) | (leave[1:] != leave[:-1])
    change[::BLOCK] = True
    begin = change.nonzero()[:, 0]
    stop = torch.cat([begin[1:], torch.tensor([len(enter)])])
    return begin, stop, begin // BLOCK


def _ordered(dense: Tensor) -> tuple[Tensor, Tensor]:
    """Return (1, 1, Q) numbers of chosen blocks, and (1, 1, Q, K) indices that begin with the chosen blocks."""
    index = dense.int().argsort(dim=1, descending=True, stable=True)
    return dense.sum(1).int()[None, None], index.int().contiguous()[None, None]
