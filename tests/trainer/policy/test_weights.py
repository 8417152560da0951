"""Versioned weights: copies that fit another copy of the same policy."""

import pytest
import torch

from trainer.config.run import LoraConfig, PolicyConfig
from trainer.policy import lora_adapters
from trainer.policy.load import ModelError, load
from trainer.policy.weights import VersionedWeights


@pytest.fixture(params=["pocket_folder", "llama_folder"])
def folder(request):
    """Policies with tied and with separate embeddings."""
    return request.getfixturevalue(request.param)


def same(one, other):
    left, right = one.state_dict(), other.state_dict()
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def change(model):
    with torch.no_grad():
        for number, parameter in enumerate(lora_adapters.trainable(model)):
            parameter.add_(1e-3 * (number + 1))


def test_another_copy_gets_all_weights(folder):
    here, there = (load(folder, PolicyConfig()).model for _ in range(2))
    change(here)
    assert not same(here, there)
    weights = VersionedWeights.of(here, version=3)
    weights.load_into(there)
    assert same(here, there)
    assert weights.version == 3


def test_later_changes_of_the_model_leave_the_copy_as_it_was(folder):
    here, there = (load(folder, PolicyConfig()).model for _ in range(2))
    weights = VersionedWeights.of(here, version=0)
    change(here)
    weights.load_into(here)
    assert same(here, there)


def test_tied_weights_are_copied_once(pocket_folder):
    model = load(pocket_folder, PolicyConfig()).model
    assert VersionedWeights.of(model, 0).size == sum(value.numel() * 4 for value in model.parameters())


def test_of_a_policy_with_adapters_only_these_are_copied(llama_folder):
    lora = LoraConfig(rank=4, alpha=8)
    here, there = (load(llama_folder, PolicyConfig()).model for _ in range(2))
    for model in (here, there):
        lora_adapters.attach_all(model, None, lora, seed=1)
    change(here)
    weights = VersionedWeights.of(here, 1)
    assert all("lora_" in name for name in weights.tensors)
    weights.load_into(there)
    assert same(here, there)


def test_adapters_of_another_rank_are_refused(llama_folder):
    models = [load(llama_folder, PolicyConfig()).model for _ in range(2)]
    for rank, model in zip((4, 8), models, strict=True):
        lora_adapters.attach_all(model, None, LoraConfig(rank=rank, alpha=8), seed=1)
    with pytest.raises(ModelError, match="adapters do not fit"):
        VersionedWeights.of(models[0], 1).load_into(models[1])
