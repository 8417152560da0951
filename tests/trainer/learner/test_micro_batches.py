"""Partition of the rows of an update: each once, evenly, in micro-batches of bounded size."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.trainer.shared_prefix_batches import Family, batch_of, families, prefixes_of
from trainer.learner.micro_batches import partition, partition_shared, token_limit
from trainer.policy.packing.layout import PackedBatch
from trainer.policy.packing.shared_prefix import prefixes_within

LENGTHS = st.lists(st.integers(1, 300), min_size=1, max_size=40)


@given(LENGTHS, st.integers(64, 2000), st.integers(1, 5))
def test_every_row_goes_to_one_process_in_bounded_micro_batches(lengths, most, size):
    known = torch.tensor(lengths)
    dealt = [partition(known, most, rank, size) for rank in range(size)]
    assert sorted(int(row) for pieces in dealt for rows in pieces for row in rows) == list(range(len(lengths)))
    for rows in (rows for pieces in dealt for rows in pieces):
        assert len(rows) == 1 or len(rows) * int(known[rows].max()) <= most
    counts = [sum(len(rows) for rows in pieces) for pieces in dealt]
    assert max(counts) - min(counts) <= 1


@given(LENGTHS, st.integers(64, 2000), st.integers(1, 5))
def test_synchronised_processes_get_equally_many_micro_batches(lengths, most, size):
    known = torch.tensor(lengths)
    even = [partition(known, most, rank, size, even=True) for rank in range(size)]
    assert len({len(pieces) for pieces in even}) == 1
    for rank, pieces in enumerate(even):
        work = [rows.tolist() for rows in pieces if len(rows)]
        assert work == [rows.tolist() for rows in partition(known, most, rank, size)]


@given(LENGTHS, st.integers(64, 2000))
def test_a_single_process_starts_with_the_longest_rows(lengths, most):
    order = torch.cat(partition(torch.tensor(lengths), most))
    assert [lengths[row] for row in order] == sorted(lengths, reverse=True)


@given(families, st.integers(1, 30), st.integers(8, 120), st.integers(1, 4))
def test_rows_with_shared_prefixes_are_assigned_once_within_the_token_budget(known, worth, most, size):
    batch = batch_of(known, tokens=2)
    lengths, shared = batch.attention.sum(1), prefixes_of(batch, worth)
    dealt = [partition_shared(lengths, shared, most, rank, size) for rank in range(size)]
    assert sorted(int(row) for pieces in dealt for rows in pieces for row in rows) == list(range(len(batch)))
    for rows in (rows for pieces in dealt for rows in pieces):
        packed = PackedBatch.of(batch.select(rows).attention, prefixes_within(shared, rows))
        assert len(rows) == 1 or packed.source.numel() <= most
        assert len(rows) == 1 or int(lengths[rows].sum()) <= 2 * most
    for rank, pieces in enumerate(dealt):
        again = partition_shared(lengths, shared, most, rank, size)
        assert [rows.tolist() for rows in again] == [rows.tolist() for rows in pieces]
        even = partition_shared(lengths, shared, most, rank, size, even=True)
        assert len(even) == max(map(len, dealt))
        assert [rows.tolist() for rows in even if len(rows)] == [rows.tolist() for rows in pieces]


@given(families, st.integers(1, 4))
def test_processes_get_balanced_token_counts(known, size):
    batch = batch_of(known, tokens=2)
    lengths, shared = batch.attention.sum(1), prefixes_of(batch, 1)
    whole = PackedBatch.of(batch.attention, shared).source.numel()
    for rank in range(size):
        rows = torch.cat([torch.zeros(0, dtype=torch.long), *partition_shared(lengths, shared, 10_000, rank, size)])
        if len(rows):
            mine = PackedBatch.of(batch.select(rows).attention, prefixes_within(shared, rows)).source.numel()
            # One row more or less at either end, and a prefix that was split is computed twice.
            assert mine <= whole / size + 3 * int(lengths.max())


def test_a_group_that_fits_stays_in_one_micro_batch():
    batch = batch_of([Family(0, 10, [[5]] * 4) for _ in range(6)])
    shared = prefixes_of(batch, 1)
    pieces = partition_shared(batch.attention.sum(1), shared, 64)
    assert [sorted(batch.group[rows].tolist()) for rows in pieces] == [[n] * 4 + [n + 1] * 4 for n in (0, 2, 4)]


def test_micro_batches_are_limited_on_a_cpu():
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    assert [token_limit(tokens, cpu) for tokens in (64, 4096, 16_384)] == [64, 4096, 4096]
    assert [token_limit(tokens, gpu) for tokens in (64, 4096, 16_384)] == [64, 4096, 16_384]
