"""Rows end to end: the same numbers and the same steps, whatever the lengths."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.trainer.test_learner import batch_of, learner_for, weights
from trainer import packing
from trainer.packing import Packed
from trainer.policies import ModelError


def learner_with(folder, on, **optimizer):
    return learner_for(
        folder,
        algorithm={"estimator": "gae"},
        optimizer={"update_batch": 6, "packing": on, "name": "sgd", "policy_lr": 0.1, "critic_lr": 0.1} | optimizer,
    )


@pytest.mark.parametrize("model", ["pocket", "llama"])
@pytest.mark.parametrize("recomputed", [False, True])
def test_packed_rows_take_the_step_of_padded_ones(pocket_folder, llama_folder, model, recomputed):
    folder = {"pocket": pocket_folder, "llama": llama_folder}[model]
    found = []
    for on in (False, True):
        learner = learner_with(folder, on, gradient_checkpointing=recomputed)
        batch = batch_of(learner, [1, 0, 0.5, 0, 2, 1])
        torch.nn.init.normal_(learner.critic.head.weight, std=0.1, generator=torch.Generator().manual_seed(0))
        before = learner.score(batch), learner.values(batch)
        metrics = learner.update(batch, 1)
        found.append((before, metrics, weights(learner), learner.critic.head.weight.detach()))
    (padded, metrics, moved, critic), (packed, others, also, other) = found
    assert torch.allclose(padded[0].logprobs, packed[0].logprobs, rtol=0, atol=1e-5)
    assert torch.allclose(padded[0].entropies, packed[0].entropies, rtol=0, atol=1e-5)
    assert torch.allclose(padded[1], packed[1], rtol=0, atol=1e-5)
    assert torch.allclose(moved, also, rtol=0, atol=1e-5)
    assert torch.allclose(critic, other, rtol=0, atol=1e-5)
    assert others == pytest.approx(metrics, rel=1e-3, abs=1e-5)


def test_no_layer_but_attention_sees_padding(pocket_folder):
    learner = learner_with(pocket_folder, True)
    batch = batch_of(learner, [1, 0, 0, 0, 1, 0])
    seen = []
    mlp = learner.policy.model.base_model.layers[0].mlp
    mlp.register_forward_hook(lambda module, given, out: seen.append(given[0].shape[0] * given[0].shape[1]))
    learner.score(batch)
    assert sum(seen) == int(batch.attention.sum()) < batch.attention.numel()


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_packing_and_unpacking_gives_every_token_its_place(lengths):
    attention = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    packed = Packed(attention)
    values = torch.arange(1.0, attention.numel() + 1).view(attention.shape)
    assert packed.pack(values).shape == (1, sum(lengths))
    assert torch.equal(packed.unpack(packed.pack(values)), values * attention)
    assert packed.positions.tolist() == [[place for length in lengths for place in range(length)]]


def test_an_architecture_that_cannot_be_packed_is_refused_with_what_to_do(policy):
    policy.model.config.sliding_window = 4
    policy.model.config.use_sliding_window = True
    with pytest.raises(ModelError, match=r"optimizer\.packing: .* switch it off"):
        packing.prepare(policy.model)
