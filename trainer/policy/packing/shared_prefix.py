"""Prefixes that several dialogues share, so that they are computed once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

MIN_SHARED_TOKENS = 64
"""Tokens that a shared prefix of an update must save: it costs another call of attention in every layer."""


@dataclass(frozen=True)
class SharedPrefix:
    """Tokens `start` to `stop`, equal in the prompts of all `members`, after an equal prefix up to `start`."""

    members: tuple[int, ...]
    start: int
    stop: int


def find_shared_prefixes(prompts: Sequence[Sequence[int]], min_tokens: int) -> list[list[SharedPrefix]]:
    """Find prefixes to compute once, in rounds: the prefixes of a round continue the prefixes of earlier rounds.

    Every prompt keeps at least its last token, which is computed for each dialogue.

    Args:
        prompts: non-empty token ids; equal within a group, with a common prefix within an environment.
        min_tokens: tokens that sharing a prefix must save.
    Returns:
        Non-empty rounds; within a round no prompt is a member of two prefixes.
    """
    rounds: list[list[SharedPrefix]] = []
    pending = [(list(range(len(prompts))), 0, 0)]
    while pending:
        members, start, depth = pending.pop()
        if len(members) < 2:
            continue
        stop = _common(prompts, members, start)
        if stop > start and (stop - start) * (len(members) - 1) >= min_tokens:
            if depth == len(rounds):
                rounds.append([])
            rounds[depth].append(SharedPrefix(tuple(members), start, stop))
            start, depth = stop, depth + 1
        branches: dict[int, list[int]] = {}
        for member in members:
            if len(prompts[member]) > stop + 1:
                branches.setdefault(prompts[member][stop], []).append(member)
        pending += [(branch, start, depth) for branch in branches.values()]
    return rounds


def _common(prompts: Sequence[Sequence[int]], members: Sequence[int], start: int) -> int:
    """Return the end of the members' common prefix, at most their last token; they are equal up to `start`."""
    first, others = prompts[members[0]], members[1:]
    longest = min(len(prompts[member]) for member in members) - 1
    stop = start
    while stop < longest and all(prompts[other][stop] == first[stop] for other in others):
        stop += 1
    return stop


def find_row_prefixes(
    ids: Tensor, attention: Tensor, sampled: Tensor, min_tokens: int | None = None
) -> list[list[SharedPrefix]]:
    """Find the shared prefixes of a batch's rows, in rounds. Sampled tokens are never shared, even if equal.

    Every row keeps at least one unshared token, and all tokens from the first sampled one on.

    Args:
        ids, attention, sampled: (B, T) right-padded rows, mask of their tokens, and mask of their sampled tokens.
        min_tokens: tokens that sharing a prefix must save; None: `MIN_SHARED_TOKENS`.
    Returns:
        Non-empty rounds; `members` are rows, `start` and `stop` columns.
    """
    lengths = attention.sum(1)
    ends = sampled.int().argmax(1).where(sampled.any(1), lengths).minimum(lengths - 1)
    # find_shared_prefixes leaves each prompt its last token: here the first one that is never shared.
    prompts = [row[: end + 1].tolist() for row, end in zip(ids, ends.tolist(), strict=True)]
    return find_shared_prefixes(prompts, MIN_SHARED_TOKENS if min_tokens is None else min_tokens)


def prefixes_within(rounds: Sequence[Sequence[SharedPrefix]], rows: Tensor) -> list[list[SharedPrefix]]:
    """Return the prefixes shared by some of the rows, with members numbered by their index among these rows.

    Args:
        rows: (n,) rows of the batch.
    """
    index = {row: number for number, row in enumerate(rows.tolist())}
    selected = []
    for prefixes in rounds:
        shared = []
        for prefix in prefixes:
            members = tuple(sorted(index[row] for row in prefix.members if row in index))
            if len(members) > 1:
                shared.append(SharedPrefix(members, prefix.start, prefix.stop))
        selected.append(shared)
    return [prefixes for prefixes in selected if prefixes]


def prefix_chains(rounds: Sequence[Sequence[SharedPrefix]], rows: int) -> list[list[SharedPrefix]]:
    """Return the prefixes that precede each row's unshared tokens, shortest first."""
    chains: list[list[SharedPrefix]] = [[] for _ in range(rows)]
    for prefixes in rounds:
        for prefix in prefixes:
            for row in prefix.members:
                chains[row].append(prefix)
    return chains
