"""FlexAttention over packed rows: the mask and its blocks, and the same values and steps as attention by segments."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.trainer.learner.test_learner import batch_of, learner_for
from tests.trainer.shared_prefix_batches import batch_of as family_batch
from tests.trainer.shared_prefix_batches import families, mixed, prefixes_of
from tests.trainer.steps import SGD, assert_same_step, stepped_on, variants
from trainer.policy.load import ModelError
from trainer.policy.packing import attention, flex_mask, shared_prefix
from trainer.policy.packing.flex_mask import FlexMask
from trainer.policy.packing.layout import PackedBatch
from trainer.rollout.trajectory import Batch


def packed_of(batch: Batch, *, flex: bool = True) -> PackedBatch:
    return PackedBatch.of(batch.attention, prefixes_of(batch, 1), mask=batch.mask, flex=flex)


def expected_mask(packed: PackedBatch) -> torch.Tensor:
    """(M, M) which places attend to which, from the rows: to the tokens before them in a row that contains both."""
    size = len(packed.source)
    attends = torch.zeros(size, size, dtype=torch.bool)
    for row, attention_ in zip(packed.place, packed.attention, strict=True):
        places = row[: int(attention_.sum())]
        for column, place in enumerate(places):
            attends[place, places[: column + 1]] = True
    return attends


def called(mask: FlexMask) -> torch.Tensor:
    """(W, M) the function that the kernel calls, at every pair."""
    queries, keys = torch.arange(len(mask.queries))[:, None], torch.arange(len(mask.enter))[None]
    zero = torch.zeros(1, 1, dtype=torch.long)
    return mask.blocks.mask_mod(zero, zero, queries, keys)


def covered(mask: FlexMask, number: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """(W, M) pairs in the listed blocks."""
    chosen = torch.zeros(index.shape[2], index.shape[3], dtype=torch.bool)
    for row in range(len(chosen)):
        chosen[row, index[0, 0, row, : int(number[0, 0, row])].long()] = True
    whole = chosen.repeat_interleave(flex_mask.BLOCK, 0).repeat_interleave(flex_mask.BLOCK, 1)
    return whole[: len(mask.queries), : len(mask.enter)]


@given(families, st.sampled_from([2, 3, 8, 128]))
def test_the_mask_is_that_of_the_rows_and_its_blocks_hold_it(drawn, block):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flex_mask, "BLOCK", block)
        packed = packed_of(family_batch(drawn))
        assert packed.targets is not None
        expected = expected_mask(packed)
        for mask, wanted in ((packed.flex, expected), (packed.targets.flex, expected[packed.targets.places])):
            assert torch.equal(mask.dense(), wanted)
            assert torch.equal(called(mask), wanted)
            partial = covered(mask, mask.kv_number, mask.kv_index)
            full = covered(mask, mask.full_number, mask.full_index)
            assert not (partial & full).any()
            assert not (wanted & ~(partial | full)).any(), "no pair is skipped"
            assert not (full & ~wanted).any(), "full blocks are not masked"


@pytest.mark.parametrize("model", ["pocket", "llama"])
@pytest.mark.parametrize("recomputed", [False, True])
def test_flex_attention_gives_the_same_scores_and_step(pocket_folder, llama_folder, model, recomputed, monkeypatch):
    monkeypatch.setattr(shared_prefix, "MIN_SHARED_TOKENS", 1)
    folder = {"pocket": pocket_folder, "llama": llama_folder}[model]
    scores, steps, before = [], [], None
    for names in ([], ["flex"]):
        with variants(*names):
            learner = learner_for(
                folder,
                algorithm={"estimator": "gae"},
                optimizer=SGD | {"mini_batch_trajectories": 9, "gradient_checkpointing": recomputed},
            )
        batch = mixed()
        batch.sampler_logprobs = learner.score(batch).logprobs
        packed = [part.packed for part in learner.micro_batches(batch)]
        assert packed
        assert all((part.flex is not None) == bool(names) for part in packed)
        scores.append(batch.sampler_logprobs)
        before = {key: value.clone() for key, value in stepped_on(learner).items()}
        learner.update(batch, 1)
        steps.append(stepped_on(learner))
    assert torch.allclose(scores[0], scores[1], rtol=0, atol=1e-5)
    assert_same_step(before, *steps, within=1e-4)


def test_the_kernel_computes_what_the_dense_mask_does():
    """PyTorch has its forward pass for a CPU, too."""
    packed = packed_of(mixed())
    assert packed.targets is not None
    draw = torch.Generator().manual_seed(0)
    size = len(packed.source)
    key, value = (torch.randn(1, size, 2, 16, generator=draw) for _ in range(2))
    for mask in (packed.flex, packed.targets.flex):
        query = torch.randn(1, len(mask.queries), 4, 16, generator=draw)
        q, k, v = (part.transpose(1, 2) for part in (query, key, value))
        with torch.no_grad():
            read = flex_mask.flex_attention(q, k, v, block_mask=mask.blocks, scale=0.3, enable_gqa=True)
        assert torch.allclose(read.transpose(1, 2), mask.attend(query, key, value, 0.3), rtol=0, atol=1e-5)


def test_a_kernel_that_fails_is_refused_with_advice(policy, monkeypatch):
    def refused(*arguments):
        raise RuntimeError("no such kernel")

    monkeypatch.setattr(FlexMask, "attend", refused)
    advice = r"FlexAttention fails .*no such kernel.* take flex out of ECHOSCOPE_UPDATE_VARIANTS"
    with pytest.raises(ModelError, match=advice):
        attention.prepare_models([policy.model], required=False, optional=True, flex=True)


def test_a_kernel_with_other_results_is_refused(policy, monkeypatch):
    monkeypatch.setattr(FlexMask, "attend", lambda mask, query, key, value, scaling: torch.zeros_like(query))
    with pytest.raises(ModelError, match="gives other results"):
        attention.prepare_models([policy.model], required=False, optional=True, flex=True)


def test_without_sharing_and_packing_nothing_is_checked(pocket_folder):
    with variants("flex", "separate"):
        learner = learner_for(pocket_folder)
    batch = batch_of(learner, [1, 0, 0])
    assert all(part.packed is None for part in learner.micro_batches(batch))
