"""Rows of an update are dealt out once each, evenly, in pieces that keep to their size."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from trainer.micro_batches import deal

LENGTHS = st.lists(st.integers(1, 300), min_size=1, max_size=40)


@given(LENGTHS, st.integers(64, 2000), st.integers(1, 5))
def test_every_row_goes_to_one_process_in_pieces_that_keep_to_their_size(lengths, most, size):
    known = torch.tensor(lengths)
    dealt = [deal(known, most, rank, size) for rank in range(size)]
    assert sorted(int(row) for pieces in dealt for rows in pieces for row in rows) == list(range(len(lengths)))
    for rows in (rows for pieces in dealt for rows in pieces):
        assert len(rows) == 1 or len(rows) * int(known[rows].max()) <= most
    counts = [sum(len(rows) for rows in pieces) for pieces in dealt]
    assert max(counts) - min(counts) <= 1


@given(LENGTHS, st.integers(64, 2000), st.integers(1, 5))
def test_processes_that_must_keep_step_get_as_many_pieces(lengths, most, size):
    known = torch.tensor(lengths)
    even = [deal(known, most, rank, size, even=True) for rank in range(size)]
    assert len({len(pieces) for pieces in even}) == 1
    for rank, pieces in enumerate(even):
        work = [rows.tolist() for rows in pieces if len(rows)]
        assert work == [rows.tolist() for rows in deal(known, most, rank, size)]


@given(LENGTHS, st.integers(64, 2000))
def test_one_process_takes_the_longest_rows_first(lengths, most):
    order = torch.cat(deal(torch.tensor(lengths), most))
    assert [lengths[row] for row in order] == sorted(lengths, reverse=True)
