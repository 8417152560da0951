"""What rows of a batch begin with in common: found here, so that the update computes it once. Nothing is computed here.

The dialogues of a group begin with the same prompt, those of an environment with the same instruction. Sampled tokens
are never taken for a beginning, not even equal ones.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from trainer.policy.packing.shared_prefix import SharedPrefix, find_shared_prefixes
from trainer.rollout.trajectory import Batch

MIN_SHARED_TOKENS = 64
"""How many tokens a beginning must save: it costs every layer another call of attention."""


def find_batch_prefixes(batch: Batch, worth: int | None = None) -> list[list[SharedPrefix]]:
    """The beginnings of a batch's rows, in rounds: a round's continue those of the rounds before.

    Every row keeps a token of its own at least, and all from the first sampled one on.

    Args:
        worth: tokens that each must save; None: `WORTH`.
    Returns:
        Rounds, none of them empty; `members` are rows, `start` and `stop` columns.
    """
    lengths = batch.attention.sum(1)
    ends = batch.mask.int().argmax(1).where(batch.mask.any(1), lengths).minimum(lengths - 1)
    # `beginnings` leaves each prompt its last token: here the first one that is not shared in any case.
    prompts = [ids[: end + 1].tolist() for ids, end in zip(batch.ids, ends.tolist(), strict=True)]
    return find_shared_prefixes(prompts, MIN_SHARED_TOKENS if worth is None else worth)


def prefixes_within(rounds: Sequence[Sequence[SharedPrefix]], rows: Tensor) -> list[list[SharedPrefix]]:
    """The beginnings that some of the rows have in common, with members numbered by their place among these rows.

    Args:
        rows: (n,) rows of the batch.
    """
    number = {row: place for place, row in enumerate(rows.tolist())}
    found = []
    for beginnings_of_round in rounds:
        kept = []
        for known in beginnings_of_round:
            members = tuple(sorted(number[row] for row in known.members if row in number))
            if len(members) > 1:
                kept.append(SharedPrefix(members, known.start, known.stop))
        found.append(kept)
    return [kept for kept in found if kept]


def prefix_chains(rounds: Sequence[Sequence[SharedPrefix]], rows: int) -> list[list[SharedPrefix]]:
    """By row, the beginnings that lead up to what it has for itself, shortest first."""
    found: list[list[SharedPrefix]] = [[] for _ in range(rows)]
    for beginnings_of_round in rounds:
        for known in beginnings_of_round:
            for row in known.members:
                found[row].append(known)
    return found
