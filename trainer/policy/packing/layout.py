"""Layout of a micro-batch as one long row without padding, with shared prefixes stored once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from trainer.policy.packing.host_transfer import to_device
from trainer.policy.packing.shared_prefix import SharedPrefix

_MAX_LENGTH_RATIO = {"cpu": 1.25}
"""Segments of one attention call differ in length by at most this factor; the shorter ones are padded. On a CPU another
call costs less than the padding, whose attention grows with the square of the length."""
_DEFAULT_MAX_LENGTH_RATIO = 2.0
"""Maximum ratio on other devices, where another call costs a launch of several kernels in every layer."""


@dataclass(frozen=True)
class Segments:
    """n segments of the long row in one attention call, each attending to its prefix and to itself.

    Attributes:
        queries: (n, N) places of the segments' tokens; arbitrary in the right padding.
        seen: (n, S + W) places of the attended tokens: up to S of the prefix, left-padded, then the segment.
        prefix: (n,) length of the prefix, at most S.
        ahead: S, the length of the longest prefix.
        columns: (n, N) number of each query in its segment, arbitrary in the right padding; None: all W = N tokens of
            the segments, in order.
        level: whether all prefixes have the same length.
        reach: (N,) running maximum of the columns over the tokens of `queries`; None like `columns`.
    """

    queries: Tensor
    seen: Tensor
    prefix: Tensor
    ahead: int
    columns: Tensor | None = None
    level: bool = False
    reach: tuple[int, ...] | None = None
    _masks: dict[torch.dtype, Tensor] = field(default_factory=dict, compare=False, repr=False)

    def mask(self, dtype: torch.dtype) -> Tensor:
        """Return (n, 1, N, S + W), or (1, 1, N, S + W) if equal for all: 0 for attended tokens, −∞ for the rest."""
        if dtype not in self._masks:
            ahead, device = self.ahead, self.queries.device
            prefix = self.prefix[:1] if self.level else self.prefix
            columns = torch.arange(self.queries.shape[1], device=device)[None] if self.columns is None else self.columns
            keys = torch.arange(self.seen.shape[1], device=device) - ahead
            unread = (keys < -prefix[:, None])[:, None, None] | (keys > columns[:, None, :, None])
            self._masks[dtype] = torch.zeros(unread.shape, dtype=dtype, device=device).masked_fill_(unread, -torch.inf)
        return self._masks[dtype]

    def keys(self, stop: int) -> int:
        """Return the maximum number of keys that the first `stop` tokens of `queries` attend to."""
        last = stop - 1 if self.reach is None else self.reach[stop - 1]
        return self.ahead + last + 1

    def to(self, device: torch.device) -> Segments:
        """Move the segments to a device."""
        columns = None if self.columns is None else to_device(self.columns, device)
        queries, seen, prefix = (to_device(tensor, device) for tensor in (self.queries, self.seen, self.prefix))
        return Segments(queries, seen, prefix, self.ahead, columns, self.level, self.reach)


@dataclass(frozen=True)
class Targets:
    """Places of the long row with used last hidden states: the last layer computes no others.

    Attributes:
        places: (W,) distinct places, ascending.
        index: (m,) index in `places` of the token before each token on the mask, row by row.
        segments: one entry per attention call; their `queries` are indices in `places`.
        back: (W,) index of each place among the tokens of all segments, including padding.
    """

    places: Tensor
    index: Tensor
    segments: tuple[Segments, ...]
    back: Tensor

    @classmethod
    def of(cls, packed: PackedBatch, mask: Tensor) -> Targets:
        """Return the targets of tokens on a (B, T) mask with at least one token, never the first of a row."""
        places, index = torch.unique(packed.place[:, :-1][mask[:, 1:]], return_inverse=True)
        number = torch.full((len(packed.source),), -1)
        number[places] = torch.arange(len(places))
        padded = torch.zeros(sum(segments.queries.numel() for segments in packed.segments), dtype=torch.bool)
        padded[packed.back] = True
        real = torch.split(padded, [segments.queries.numel() for segments in packed.segments])
        selected, back, start = [], torch.zeros_like(places), 0
        for segments, tokens in zip(packed.segments, real, strict=True):
            wanted = (number[segments.queries] >= 0) & tokens.view(segments.queries.shape)
            rows = wanted.any(1)
            if not bool(rows.any()):
                continue
            wanted = wanted[rows]
            columns = wanted.int().argsort(dim=1, descending=True, stable=True)[:, : int(wanted.sum(1).max())]
            queries, chosen = number[segments.queries[rows].gather(1, columns)].clamp(min=0), wanted.gather(1, columns)
            back[queries[chosen]] = start + torch.arange(queries.numel()).view(queries.shape)[chosen]
            start += queries.numel()
            prefix, reach = segments.prefix[rows], columns.amax(0).cummax(0).values.tolist()
            level = bool((prefix == segments.ahead).all())
            selected.append(
                Segments(queries, segments.seen[rows], prefix, segments.ahead, columns, level, tuple(reach))
            )
        return cls(places, index, tuple(selected), back)

    def to(self, device: torch.device) -> Targets:
        """Move the targets to a device."""
        places, index = to_device(self.places, device), to_device(self.index, device)
        segments = tuple(segments.to(device) for segments in self.segments)
        return Targets(places, index, segments, to_device(self.back, device))


@dataclass(frozen=True)
class PackedBatch:
    """Places of the tokens of B rows of at most T tokens in one row of M tokens.

    Attributes:
        attention: (B, T) tokens of the padded rows.
        place: (B, T) place of each token in the long row, equal for tokens of a shared prefix; 0 in the padding.
        source: (M,) index of each token of the long row in the padded rows, flattened to B · T.
        segments: one entry per attention call.
        back: (M,) index of each token among the padded tokens of all segments.
        targets: places of used last hidden states; None: all.
    """

    attention: Tensor
    place: Tensor
    source: Tensor
    segments: tuple[Segments, ...]
    back: Tensor
    targets: Targets | None = None

    @classmethod
    def of(
        cls,
        attention: Tensor,
        shared: Sequence[Sequence[SharedPrefix]] = (),
        *,
        mask: Tensor | None = None,
        device: torch.device | None = None,
    ) -> PackedBatch:
        """Compute the layout of right-padded rows.

        Args:
            attention: (B, T), on the CPU if `mask` is given.
            shared: prefixes that rows share, in rounds.
            mask: (B, T) the tokens to predict, never the first of a row; None: all last hidden states are used.
            device: device of the rows; None: the device of `attention`.
        """
        device = attention.device if device is None else device
        ratio = _MAX_LENGTH_RATIO.get(device.type, _DEFAULT_MAX_LENGTH_RATIO)
        levels = _levels(attention.sum(1).tolist(), shared)
        calls = [call for level in levels for call in _group_by_length(level, ratio)]
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
            number, wide = segment.queries.shape
            begins = start + wide * torch.arange(number)
            back += [begin + torch.arange(part.stop - part.start) for begin, part in zip(begins, call, strict=True)]
            start += segment.queries.numel()
        packed = cls(attention, place, torch.cat(source), segments, torch.cat(back))
        if mask is not None and bool(mask.any()):
            packed = replace(packed, targets=Targets.of(packed, mask))
        return packed.to(device)

    @property
    def positions(self) -> Tensor:
        """(1, M) position of each token in its row."""
        return (self.source % self.attention.shape[1])[None]

    def pack(self, values: Tensor) -> Tensor:
        """Pack (B, T, …) to (1, M, …)."""
        return values.flatten(0, 1).index_select(0, self.source)[None]

    def unpack(self, values: Tensor) -> Tensor:
        """Unpack (1, M, …) to (B, T, …), with 0 in the padding; a shared prefix's values appear in each of its rows."""
        rows = self.pick(values, self.place.flatten()).view(*self.place.shape, *values.shape[2:])
        return rows.where(self.attention.view(*self.place.shape, *[1] * (rows.ndim - 2)), rows.new_zeros(()))

    def before(self, values: Tensor, mask: Tensor) -> Tensor:
        """Select (m, …) values of the tokens right before the tokens on the (B, T) mask, never the first of a row."""
        return self.pick(values, self.place[:, :-1][mask[:, 1:]])

    @staticmethod
    def pick(values: Tensor, places: Tensor) -> Tensor:
        """Select (m, …) values of (1, M, …) at (m,) places, which may repeat."""
        # In the backward pass, gradients of one place must be summed in the same order every time: each of the two
        # operations does so on only one kind of device.
        return values[0][places] if values.is_cuda else values[0].index_select(0, places)

    def compute_hidden(self, backbone: nn.Module, ids: Tensor, targets: Targets | None = None) -> Tensor:
        """Compute (1, M, H) last hidden states of (B, T) ids with a model after `prepare`.

        With targets the result is (1, W, H) at their places, with a model whose last layer is restricted to them.
        """
        # A four-dimensional mask is used unchanged; without one, an unused M × M mask would be allocated.
        unread = torch.zeros(1, 1, 1, 1, device=ids.device)
        hidden: Tensor = backbone(
            input_ids=self.pack(ids),
            attention_mask=unread,
            position_ids=self.positions,
            packed=self,
            use_cache=False,
            **({} if targets is None else {"targets": targets}),
        ).last_hidden_state
        return hidden

    def to(self, device: torch.device) -> PackedBatch:
        """Move the layout to a device."""
        attention, place, source = (to_device(tensor, device) for tensor in (self.attention, self.place, self.source))
        targets = None if self.targets is None else self.targets.to(device)
        segments = tuple(segment.to(device) for segment in self.segments)
        return PackedBatch(attention, place, source, segments, to_device(self.back, device), targets)


def _levels(lengths: Sequence[int], shared: Sequence[Sequence[SharedPrefix]]) -> list[list[SharedPrefix]]:
    """Group shared prefixes and remainders of rows by the number of preceding prefixes: each token is in one part."""
    levels: list[list[SharedPrefix]] = [list(round_) for round_ in shared] + [[]]
    depth, stop = [0] * len(lengths), [0] * len(lengths)
    for number, round_ in enumerate(shared):
        for prefix in round_:
            for member in prefix.members:
                depth[member], stop[member] = number + 1, prefix.stop
    for row, length in enumerate(lengths):
        levels[depth[row]].append(SharedPrefix((row,), stop[row], length))
    return levels


def _group_by_length(level: Sequence[SharedPrefix], max_ratio: float) -> list[list[SharedPrefix]]:
    """Sort the parts of a level by length, longest first; start a new call if one is much shorter than its longest."""
    calls: list[list[SharedPrefix]] = []
    longest = 0
    for part in sorted(level, key=lambda part: part.start - part.stop):
        width = part.stop - part.start
        if not calls or width * max_ratio < longest:
            calls.append([])
            longest = width
        calls[-1].append(part)
    return calls


def _segments(call: Sequence[SharedPrefix], place: Tensor) -> Segments:
    """Return the segments of parts of rows with known `place`."""
    wide, ahead = max(part.stop - part.start for part in call), max(part.start for part in call)
    queries, seen = (
        torch.zeros(len(call), wide, dtype=torch.long),
        torch.zeros(len(call), ahead + wide, dtype=torch.long),
    )
    for number, part in enumerate(call):
        row = place[part.members[0], : part.stop]
        queries[number, : part.stop - part.start] = row[part.start :]
        seen[number, ahead - part.start : ahead - part.start + part.stop] = row
    prefix = torch.tensor([part.start for part in call])
    return Segments(queries, seen, prefix, ahead, level=bool((prefix == ahead).all()))
