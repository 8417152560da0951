"""Collective operations of learners that need no other process to be checked."""

import torch

from trainer.distributed.collectives import buckets


def test_gradients_are_reduced_in_bounded_buckets_of_one_type():
    parameters = [torch.nn.Parameter(torch.zeros(size)) for size in (2**23, 2**23, 1, 5)]
    parameters.append(torch.nn.Parameter(torch.zeros(3, dtype=torch.bfloat16)))
    sizes = [[parameter.numel() for parameter in bucket] for bucket in buckets(parameters)]
    assert sizes == [[2**23, 2**23], [1, 5], [3]]
