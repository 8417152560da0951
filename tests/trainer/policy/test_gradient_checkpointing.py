"""Gradient checkpointing: fewer saved activations, bit-identical gradients."""

import pytest
import torch
from torch import nn

from tests.trainer import tiny
from tests.trainer.learner.test_learner import batch_of, learner_for, weights
from tests.trainer.policy.architectures import ARCHITECTURES
from trainer.policy import gradient_checkpointing
from trainer.policy.load import ModelError


def updated(folder, on, **sections):
    learner = learner_for(folder, optimizer={"mini_batch_trajectories": 6, "gradient_checkpointing": on}, **sections)
    batch = batch_of(learner, [1, 0, 0, 0, 1, 0])
    return learner, batch, learner.update(batch, 1)


@pytest.mark.parametrize("model", ["pocket", "llama"])
@pytest.mark.parametrize("estimator", ["grpo", "gae"])
def test_recomputed_layers_take_an_identical_step(pocket_folder, llama_folder, model, estimator):
    folder = {"pocket": pocket_folder, "llama": llama_folder}[model]
    (plain, _, values), (other, _, again) = (
        updated(folder, on, algorithm={"estimator": estimator}) for on in (False, True)
    )
    assert torch.equal(weights(plain), weights(other))
    assert values == again


def test_a_critic_with_a_window_takes_an_identical_step(tmp_path):
    """Keys and values that a layer appended to a cache would be there twice when it is recomputed."""
    windowed = next(one for one in ARCHITECTURES if one.name == "Mistral 0.1 (window)")
    folder = windowed.save(tmp_path / "model", tiny.styles()["chatml"])
    (plain, _, values), (other, _, again) = (
        updated(folder, on, algorithm={"estimator": "gae"}) for on in (False, True)
    )
    assert torch.equal(weights(plain), weights(other))
    assert values == again


def test_adapters_take_an_identical_step(pocket_folder):
    (plain, _, _), (other, _, _) = (updated(pocket_folder, on, lora={"rank": 4, "alpha": 4}) for on in (False, True))
    assert torch.equal(weights(plain), weights(other))


def kept_bytes(learner, batch):
    """Bytes of activations saved for the backward pass."""
    kept = {}

    def pack(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    own = {p.untyped_storage().data_ptr() for p in learner.policy.model.parameters()}
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        learner.network(batch.ids, batch.mask, 1.0)
    return sum(size for place, size in kept.items() if place not in own)


def test_fewer_activations_are_saved_for_backward(pocket_folder):
    plain, batch, _ = updated(pocket_folder, False)
    other, _, _ = updated(pocket_folder, True)
    assert kept_bytes(other, batch) < 0.5 * kept_bytes(plain, batch)


def test_layers_run_once_without_gradients(pocket_folder):
    learner, batch, _ = updated(pocket_folder, True)
    runs = []
    learner.policy.model.base_model.layers[0].register_forward_hook(lambda *_: runs.append(1))
    layer = learner.policy.model.base_model.layers[0].self_attn
    layer.register_forward_hook(lambda *_: runs.append(2))
    learner.score(batch)
    assert runs.count(1) == runs.count(2) == len(list(learner.micro_batches(batch)))


def test_an_architecture_without_decoder_layers_is_refused_with_advice():
    with pytest.raises(ModelError, match=r"switch it off or lower optimizer\.micro_batch_tokens"):
        gradient_checkpointing.checkpoint_layers(nn.Linear(2, 2))
