"""Layout of packed rows: every token has a position, shared prefixes occur once, attention is causal per dialogue."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.trainer.shared_prefix_batches import batch_of, distinct, families, mixed, prefixes_of
from trainer.policy.packing.layout import PackedBatch
from trainer.policy.packing.shared_prefix import prefixes_within


@given(st.lists(st.integers(1, 40), min_size=1, max_size=6))
def test_rows_without_a_common_prefix_are_packed_whole(lengths):
    attention = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    packed = PackedBatch.of(attention)
    values = torch.arange(1.0, attention.numel() + 1).view(attention.shape)
    assert packed.pack(values).shape == (1, sum(lengths))
    assert torch.equal(packed.unpack(packed.pack(values)), values * attention)
    columns = torch.arange(max(lengths)).expand(attention.shape)
    assert torch.equal(packed.positions, packed.pack(columns))


@given(families, st.integers(1, 30), st.integers(0, 99))
def test_unpacking_inverts_packing(known, worth, seed):
    batch = batch_of(known, seed, tokens=2)
    shared = prefixes_of(batch, worth)
    packed = PackedBatch.of(batch.attention, shared)
    assert torch.equal(packed.unpack(packed.pack(batch.ids)), batch.ids * batch.attention)
    saved = sum((part.stop - part.start) * (len(part.members) - 1) for parts in shared for part in parts)
    assert packed.source.numel() == int(batch.attention.sum()) - saved
    assert packed.place[batch.attention].unique().numel() == packed.source.numel()
    assert packed.place[batch.mask].unique().numel() == int(batch.mask.sum())
    assert distinct(batch, torch.arange(len(batch)), packed.place)


@given(families, st.integers(1, 30), st.integers(0, 99))
def test_every_token_attends_to_its_dialogue_prefix_and_itself(known, worth, seed):
    batch = batch_of(known, seed, tokens=2)
    packed = PackedBatch.of(batch.attention, prefixes_of(batch, worth))
    reads = {}
    for segments in packed.segments:
        mask = segments.mask(torch.float32)[:, 0].expand(len(segments.queries), -1, -1)
        for own, seen, lines in zip(segments.queries, segments.seen, mask, strict=True):
            for place, line in zip(own.tolist(), lines, strict=True):
                reads.setdefault(place, seen[line == 0].tolist())
    padded = [place for segments in packed.segments for place in segments.queries.flatten().tolist()]
    assert [padded[column] for column in packed.back] == list(range(packed.source.numel()))
    for places, length in zip(packed.place.tolist(), batch.attention.sum(1).tolist(), strict=True):
        for column in range(length):
            assert reads[places[column]] == places[: column + 1]


def test_a_subset_of_a_batch_shares_its_common_prefix():
    batch = mixed()
    shared = prefixes_of(batch, 1)
    rows = torch.tensor([5, 0, 2, 8])
    piece = batch.select(rows)
    packed = PackedBatch.of(piece.attention, prefixes_within(shared, rows))
    assert torch.equal(packed.unpack(packed.pack(piece.ids)), piece.ids)
    assert packed.source.numel() == int(piece.attention.sum()) - 2 * 20 - 9
