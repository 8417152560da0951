"""Layout of a micro-batch as one long row without padding, with shared prefixes stored once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from trainer.policy.packing.shared_prefix import SharedPrefix

_MAX_LENGTH_RATIO = 2
"""Segments of one attention call differ in length by at most this factor; the shorter ones are padded."""


@dataclass(frozen=True)
class Segments:
    """n segments of the long row in one attention call, each attending to its prefix and to itself.

    Attributes:
        own: (n, N) places of their tokens; arbitrary in the right padding.
        seen: (n, S + N) places of the tokens they attend to: up to S of the prefix, left-padded, then their own.
        before: (n,) length of the prefix, at most S.
    """

    own: Tensor
    seen: Tensor
    before: Tensor
    _masks: dict[torch.dtype, Tensor] = field(default_factory=dict, compare=False, repr=False)

    @property
    def ahead(self) -> int:
        """S, the length of the longest prefix."""
        return self.seen.shape[1] - self.own.shape[1]

    def mask(self, dtype: torch.dtype) -> Tensor:
        """(n, 1, N, S + N), or (1, 1, N, S + N) if equal for all: 0 for attended tokens, −∞ for the rest."""
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
    """Places of the tokens of B rows of at most T tokens in one row of M tokens.

    Attributes:
        attention: (B, T) tokens of the padded rows.
        place: (B, T) place of each token in the long row, equal for tokens of a shared prefix; 0 in the padding.
        source: (M,) index of each token of the long row in the padded rows, flattened to B · T.
        segments: one entry per attention call.
        back: (M,) index of each token among the padded tokens of all segments.
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
            shared: prefixes that rows share, in rounds.
        """
        calls = [call for level in _levels(attention.sum(1).tolist(), shared) for call in _group_by_length(level)]
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
        for call, segment in zip(calls, segments, strict=True):
            number, wide = segment.own.shape
            begins = start + wide * torch.arange(number)
            back += [begin + torch.arange(part.stop - part.start) for begin, part in zip(begins, call, strict=True)]
            start += segment.own.numel()
        return cls(attention, place, torch.cat(source), segments, torch.cat(back)).to(attention.device)

    @property
    def positions(self) -> Tensor:
        """(1, M) position of each token in its own row."""
        return (self.source % self.attention.shape[1])[None]

    def pack(self, values: Tensor) -> Tensor:
        """(B, T, …) → (1, M, …)."""
        return values.flatten(0, 1).index_select(0, self.source)[None]

    def unpack(self, values: Tensor) -> Tensor:
        """(1, M, …) → (B, T, …), 0 in the padding; values of a shared prefix appear in each of its rows."""
        rows = self.pick(values, self.place.flatten()).view(*self.place.shape, *values.shape[2:])
        return rows.where(self.attention.view(*self.place.shape, *[1] * (rows.ndim - 2)), rows.new_zeros(()))

    def before(self, values: Tensor, mask: Tensor) -> Tensor:
        """(1, M, …) → (m, …) of the tokens right before those on the (B, T) mask, never the first of a row."""
        return self.pick(values, self.place[:, :-1][mask[:, 1:]])

    @staticmethod
    def pick(values: Tensor, places: Tensor) -> Tensor:
        """(1, M, …) → (m, …) at (m,) places, which may repeat."""
        # In the backward pass, gradients of one place must be summed in the same order every time: each of the two
        # operations does so on one kind of device only.
        return values[0][places] if values.is_cuda else values[0].index_select(0, places)

    def hidden_of(self, backbone: nn.Module, ids: Tensor) -> Tensor:
        """(1, M, H) last hidden states of (B, T) ids, by a model after `prepare`."""
        # A four-dimensional mask is used as it is; without one, an unused M × M mask would be allocated.
        unread = torch.zeros(1, 1, 1, 1, device=ids.device)
        hidden: Tensor = backbone(
            input_ids=self.pack(ids),
            attention_mask=unread,
            position_ids=self.positions,
            packed=self,
            use_cache=False,
        ).last_hidden_state
        return hidden

    def to(self, device: torch.device) -> PackedBatch:
        """The same on a device."""
        segments = tuple(segment.to(device) for segment in self.segments)
        attention, place, source, back = (
            tensor.to(device) for tensor in (self.attention, self.place, self.source, self.back)
        )
        return PackedBatch(attention, place, source, segments, back)


def _levels(lengths: Sequence[int], shared: Sequence[Sequence[SharedPrefix]]) -> list[list[SharedPrefix]]:
    """Shared prefixes and remainders of rows, by the number of prefixes before them: each token is in one part."""
    levels: list[list[SharedPrefix]] = [list(round_) for round_ in shared] + [[]]
    depth, stop = [0] * len(lengths), [0] * len(lengths)
    for number, round_ in enumerate(shared):
        for prefix in round_:
            for member in prefix.members:
                depth[member], stop[member] = number + 1, prefix.stop
    for row, length in enumerate(lengths):
        levels[depth[row]].append(SharedPrefix((row,), stop[row], length))
    return levels


def _group_by_length(level: Sequence[SharedPrefix]) -> list[list[SharedPrefix]]:
    """Parts of a level by length, longest first, split where one is much shorter than the longest of its call."""
    calls: list[list[SharedPrefix]] = []
    longest = 0
    for part in sorted(level, key=lambda part: part.start - part.stop):
        width = part.stop - part.start
        if not calls or width * _MAX_LENGTH_RATIO < longest:
            calls.append([])
            longest = width
        calls[-1].append(part)
    return calls


def _segments(call: Sequence[SharedPrefix], place: Tensor) -> Segments:
    """Segments of parts of rows whose `place` is set."""
    wide, ahead = max(part.stop - part.start for part in call), max(part.start for part in call)
    own, seen = torch.zeros(len(call), wide, dtype=torch.long), torch.zeros(len(call), ahead + wide, dtype=torch.long)
    for number, part in enumerate(call):
        row = place[part.members[0], : part.stop]
        own[number, : part.stop - part.start] = row[part.start :]
        seen[number, ahead - part.start : ahead - part.start + part.stop] = row
    return Segments(own, seen, torch.tensor([part.start for part in call]))
