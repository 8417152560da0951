"""Batches whose rows have common prefixes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from hypothesis import strategies as st
from torch import Tensor

from tests.trainer.rollout.test_trajectory import turn
from trainer.policy.packing.shared_prefix import SharedPrefix, find_row_prefixes
from trainer.rollout.trajectory import Batch, Trajectory, collate


@dataclass(frozen=True)
class Family:
    """Rows with the same prompt: its own tokens after the instruction, and for each row the responses' lengths."""

    instruction: int
    prompt: int
    responses: list[list[int]]


def batch_of(families: list[Family], seed: int = 0, *, tokens: int = 300) -> Batch:
    """Random tokens; families whose instructions are equally long have the same one. The r-th row has reward r % 3."""
    draw = torch.Generator().manual_seed(seed)

    def ids(count: int) -> list[int]:
        return torch.randint(10, 10 + tokens, (count,), generator=draw).tolist()

    instructions: dict[int, list[int]] = {}
    found: list[Trajectory] = []
    for group, family in enumerate(families):
        opening = instructions.setdefault(family.instruction, ids(family.instruction)) + ids(family.prompt)
        for member, lengths in enumerate(family.responses):
            one = Trajectory(id=f"{group}-{member}", group=group, member=member)
            one.append_prompt(opening)
            for number, length in enumerate(lengths):
                if number:
                    one.append_prompt(ids(3 + (member + number) % 3))
                one.append_response(ids(length), [-1.0] * length, [0.0] * length, number)
                one.turns.append(turn(number, float(len(found) % 3 * (number + 1 == len(lengths))), length))
            found.append(one)
    return collate(found, pad_id=0)


def mixed(seed: int = 0) -> Batch:
    """Two families under one instruction, one with a longer prompt of its own, a row without any partner."""
    return batch_of(
        [
            Family(20, 9, [[4, 3], [6], [2, 2, 5]]),
            Family(20, 31, [[3], [5, 5], [1]]),
            Family(33, 4, [[7, 2], [3, 3]]),
            Family(26, 3, [[4, 4]]),
        ],
        seed,
    )


def prefixes_of(batch: Batch, min_tokens: int | None = None) -> list[list[SharedPrefix]]:
    """Prefixes that the rows of a batch share."""
    return find_row_prefixes(batch.ids, batch.attention, batch.mask, min_tokens)


def distinct(batch: Batch, rows: Tensor, places: Tensor) -> bool:
    """Whether tokens of a shared prefix have equal columns, contexts and attention."""
    seen: dict[int, tuple[int, ...]] = {}
    for row, line in zip(rows.tolist(), places, strict=True):
        for column in range(int(batch.attention[row].sum())):
            before = tuple(batch.ids[row, : column + 1].tolist())
            if seen.setdefault(int(line[column]), before) != before:
                return False
    return True


_responses = st.lists(st.integers(1, 4), min_size=1, max_size=3)
families = st.lists(
    st.builds(Family, st.integers(0, 12), st.integers(1, 9), st.lists(_responses, min_size=1, max_size=4)),
    min_size=1,
    max_size=4,
)
