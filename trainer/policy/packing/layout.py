"""Rows of a micro-batch as one long row without padding: which token lies where, and what each of them reads.

What rows begin with in common lies there once. Only places and masks: attention itself is packing.py's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from trainer.policy.packing.shared_prefix import SharedPrefix

_LIKE = 2
"""Segments that attend in one call differ in length by less than this factor; the shorter ones are padded."""


@dataclass(frozen=True)
class Segments:
    """n segments of the long row that attend in one call, each to what precedes it in its dialogue and to itself.

    Attributes:
        own: (n, N) places of their tokens, any place in the padding behind.
        seen: (n, S + N) places of what they read: up to S tokens, padded in front, then their own.
        before: (n,) how many of the S there are.
    """

    own: Tensor
    seen: Tensor
    before: Tensor
    _masks: dict[torch.dtype, Tensor] = field(default_factory=dict, compare=False, repr=False)

    @property
    def ahead(self) -> int:
        """S."""
        return self.seen.shape[1] - self.own.shape[1]

    def mask(self, dtype: torch.dtype) -> Tensor:
        """(n, 1, N, S + N), or (1, 1, N, S + N) where the same does for all: 0 for what is read, −∞ for the rest."""
        if dtype not in self._masks:
            ahead, wide, device = self.ahead, self.own.shape[1], self.own.device
            before = self.before[:1] if bool((self.before == ahead).all()) else self.before
            unread = torch.zeros(len(before), 1, wide, ahead + wide, dtype=torch.bool, device=device)
            unread[..., :ahead] = (torch.arange(ahead, device=device) < ahead - before[:, None])[:, None, None]
            unread[..., ahead:] = torch.ones(wide, wide, dtype=torch.bool, device=device).triu(1)
            self._masks[dtype] = torch.zeros(unread.shape, dtype=dtype, device=device).masked_fill_(unread, -torch.inf)
        return self._masks[dtype]

    def to(self, device: torch.device) -> Segments:
        """The same on a device."""
        return Segments(self.own.to(device), self.seen.to(device), self.before.to(device))


@dataclass(frozen=True)
class PackedBatch:
    """Where the tokens of B rows of at most T tokens lie in one row of M.

    Attributes:
        attention: (B, T) where in the padded rows there are any.
        place: (B, T) where in the long row each of them lies; those of a common beginning in the same place. 0 in the
            padding.
        source: (M,) where in the padded rows, taken as one of B · T, each token of the long row comes from.
        segments: what attends in one call.
        back: (M,) where each token lies among the padded ones of all segments.
    """

    attention: Tensor
    place: Tensor
    source: Tensor
    segments: tuple[Segments, ...]
    back: Tensor

    @classmethod
    def of(cls, attention: Tensor, shared: Sequence[Sequence[SharedPrefix]] = ()) -> PackedBatch:
        """The layout of right-padded rows.

        Args:
            attention: (B, T).
            shared: what rows have in common, in rounds (shared_prompts.py).
        """
        calls = [call for level in _levels(attention.sum(1).tolist(), shared) for call in _alike(level)]
        place = torch.zeros(attention.shape, dtype=torch.long)
        source, start = [], 0
        for part in (part for call in calls for part in call):
            width = part.stop - part.start
            for member in part.members:
                place[member, part.start : part.stop] = torch.arange(start, start + width)
            source.append(part.members[0] * attention.shape[1] + torch.arange(part.start, part.stop))
            start += width
        segments = tuple(_segments(call, place) for call in calls)
        back, start = [], 0
        for call, made in zip(calls, segments, strict=True):
            number, wide = made.own.shape
            begins = start + wide * torch.arange(number)
            back += [begin + torch.arange(part.stop - part.start) for begin, part in zip(begins, call, strict=True)]
            start += made.own.numel()
        return cls(attention, place, torch.cat(source), segments, torch.cat(back)).to(attention.device)

    @property
    def positions(self) -> Tensor:
        """(1, M) each token's place in its own row."""
        return (self.source % self.attention.shape[1])[None]

    def pack(self, values: Tensor) -> Tensor:
        """(B, T, …) → (1, M, …)."""
        return values.flatten(0, 1).index_select(0, self.source)[None]

    def unpack(self, values: Tensor) -> Tensor:
        """(1, M, …) → (B, T, …), 0 in the padding; a common beginning's stand in every row that begins with it."""
        found = self.pick(values, self.place.flatten()).view(*self.place.shape, *values.shape[2:])
        return found.where(self.attention.view(*self.place.shape, *[1] * (found.ndim - 2)), found.new_zeros(()))

    def before(self, values: Tensor, mask: Tensor) -> Tensor:
        """(1, M, …) → (m, …) of the tokens right before those on the mask (B, T), never the first of a row."""
        return self.pick(values, self.place[:, :-1][mask[:, 1:]])

    @staticmethod
    def pick(values: Tensor, places: Tensor) -> Tensor:
        """(1, M, …) → (m, …) at (m,) places, the same one several times if need be."""
        # On the way back, what comes to one place must be added up in the same order every time: either of the two
        # does so on one kind of device only.
        return values[0][places] if values.is_cuda else values[0].index_select(0, places)

    def hidden_of(self, backbone: nn.Module, ids: Tensor) -> Tensor:
        """(1, M, H) last hidden states of (B, T) ids, by the layers of a prepared model."""
        # A mask of four dimensions is taken as it is: without one, a mask of M × M would be made for nothing.
        unread = torch.zeros(1, 1, 1, 1, device=ids.device)
        found: Tensor = backbone(
            input_ids=self.pack(ids),
            attention_mask=unread,
            position_ids=self.positions,
            packed=self,
            use_cache=False,
        ).last_hidden_state
        return found

    def to(self, device: torch.device) -> PackedBatch:
        """The same on a device."""
        segments = tuple(known.to(device) for known in self.segments)
        attention, place, source, back = (
            known.to(device) for known in (self.attention, self.place, self.source, self.back)
        )
        return PackedBatch(attention, place, source, segments, back)


def _levels(lengths: Sequence[int], shared: Sequence[Sequence[SharedPrefix]]) -> list[list[SharedPrefix]]:
    """Beginnings and what rows have for themselves, by how many beginnings precede them: each token is in one part."""
    levels: list[list[SharedPrefix]] = [list(round_) for round_ in shared] + [[]]
    depth, stop = [0] * len(lengths), [0] * len(lengths)
    for number, round_ in enumerate(shared):
        for known in round_:
            for member in known.members:
                depth[member], stop[member] = number + 1, known.stop
    for row, length in enumerate(lengths):
        levels[depth[row]].append(SharedPrefix((row,), stop[row], length))
    return levels


def _alike(level: Sequence[SharedPrefix]) -> list[list[SharedPrefix]]:
    """The parts of a level by length, longest first, cut where one is much shorter than the longest before it."""
    calls: list[list[SharedPrefix]] = []
    longest = 0
    for part in sorted(level, key=lambda part: part.start - part.stop):
        width = part.stop - part.start
        if not calls or width * _LIKE < longest:
            calls.append([])
            longest = width
        calls[-1].append(part)
    return calls


def _segments(call: Sequence[SharedPrefix], place: Tensor) -> Segments:
    """Parts of rows as segments; `place` is known for all of them."""
    wide, ahead = max(part.stop - part.start for part in call), max(part.start for part in call)
    own, seen = torch.zeros(len(call), wide, dtype=torch.long), torch.zeros(len(call), ahead + wide, dtype=torch.long)
    for number, part in enumerate(call):
        row = place[part.members[0], : part.stop]
        own[number, : part.stop - part.start] = row[part.start :]
        seen[number, ahead - part.start : ahead - part.start + part.stop] = row
    return Segments(own, seen, torch.tensor([part.start for part in call]))
