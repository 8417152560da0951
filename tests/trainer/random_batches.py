"""Random batches for the tests of the algorithms: masks like those of dialogues, and values on them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from hypothesis import strategies as st
from torch import Tensor


@dataclass(frozen=True)
class Dialogues:
    """B sequences of T tokens; `turns` increases along each and is −1 outside policy tokens."""

    mask: Tensor
    turns: Tensor
    seed: int

    def numbers(self, salt: int = 0) -> Tensor:
        """(B, T) normal numbers, the same for the same dialogues and salt."""
        return torch.randn(self.mask.shape, generator=torch.Generator().manual_seed(self.seed + salt))

    def groups(self, count: int) -> Tensor:
        """(B,) group ids, drawn at random."""
        generator = torch.Generator().manual_seed(self.seed + 77)
        return torch.randint(count, (self.mask.shape[0],), generator=generator)

    def rubbish(self, values: Tensor, with_: float) -> Tensor:
        """The values, replaced at environment tokens and padding."""
        return torch.where(self.mask, values, torch.full_like(values, with_))


@st.composite
def dialogues(draw: st.DrawFn, rows: int = 4, length: int = 14) -> Dialogues:
    """Sequences of environment and policy stretches in turn, right-padded; some may have no policy token at all."""
    mask, turns = [], []
    for _ in range(draw(st.integers(1, rows))):
        flags: list[bool] = []
        ids: list[int] = []
        for turn in range(draw(st.integers(0, 3))):
            read, written = draw(st.integers(0, 2)), draw(st.integers(1, 3))
            flags += [False] * read + [True] * written
            ids += [-1] * read + [turn] * written
        flags, ids = flags[:length], ids[:length]
        mask.append(flags + [False] * (length - len(flags)))
        turns.append(ids + [-1] * (length - len(ids)))
    return Dialogues(torch.tensor(mask), torch.tensor(turns), draw(st.integers(0, 2**31)))
