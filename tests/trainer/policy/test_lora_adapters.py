"""LoRA adapters: no effect until trained, can be disabled, and merge to an equal model."""

import copy
import json
import warnings

import peft
import pytest
import torch
from transformers import AutoModelForCausalLM, MixtralConfig

from trainer.config.run import LoraConfig, PolicyConfig
from trainer.policy import lora_adapters
from trainer.policy.load import ModelError, load

SETTINGS = LoraConfig(rank=4, alpha=8)
IDS = torch.arange(3, 43)[None]


def logits(model):
    with torch.no_grad():
        return model(input_ids=IDS).logits


def randomise_adapters(model, seed=0):
    """Give the adapters non-zero weights, as if trained."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in lora_adapters.trainable(model):
            parameter.copy_(0.05 * torch.randn(parameter.shape, generator=generator))


@pytest.fixture
def adapted(policy):
    lora_adapters.attach_adapters(policy.model, SETTINGS, seed=3)
    return policy.model


def test_fresh_adapters_change_nothing_and_only_they_are_trained(policy):
    before, total = logits(policy.model), policy.parameters
    state = torch.random.get_rng_state()
    lora_adapters.attach_adapters(policy.model, SETTINGS, seed=3)
    assert torch.equal(logits(policy.model), before)
    assert torch.equal(torch.random.get_rng_state(), state)
    names = {name for name, parameter in policy.model.named_parameters() if parameter.requires_grad}
    assert names == set(lora_adapters.state(policy.model))
    assert names
    assert all("lora_" in name for name in names)
    assert len(lora_adapters.layers(policy.model)) == 2 * 7, (
        "all linear layers of both blocks, and not the output layer"
    )
    assert sum(parameter.numel() for parameter in lora_adapters.trainable(policy.model)) < 0.1 * total


def test_the_same_seed_gives_the_same_adapters(pocket_folder):
    def made(seed):
        model = load(pocket_folder, PolicyConfig()).model
        lora_adapters.attach_adapters(model, SETTINGS, seed=seed)
        return lora_adapters.state(model)

    assert all(torch.equal(value, made(3)[name]) for name, value in made(3).items())
    assert any(not torch.equal(value, made(4)[name]) for name, value in made(3).items())


def test_disabled_adapters_restore_the_base_model_exactly(adapted):
    before = logits(adapted)
    randomise_adapters(adapted)
    learned = logits(adapted)
    assert not torch.allclose(before, learned)
    with lora_adapters.adapters_disabled(adapted):
        assert torch.equal(logits(adapted), before)
    assert torch.equal(logits(adapted), learned)


def test_adapters_are_enabled_again_after_an_error(adapted):
    randomise_adapters(adapted)
    learned = logits(adapted)
    with pytest.raises(ZeroDivisionError), lora_adapters.adapters_disabled(adapted):
        raise ZeroDivisionError
    assert torch.equal(logits(adapted), learned)


def test_merged_weights_form_an_equivalent_ordinary_checkpoint(adapted, tmp_path):
    randomise_adapters(adapted)
    learned = logits(adapted)
    adapted.save_pretrained(tmp_path, state_dict=lora_adapters.merged(adapted))
    again = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert not lora_adapters.layers(again)
    assert torch.allclose(logits(again), learned, atol=1e-5)
    assert torch.equal(logits(adapted), learned), "the adapted model itself is as it was"


def test_peft_loads_the_adapter_onto_the_base(adapted, pocket_folder, tmp_path):
    randomise_adapters(adapted)
    lora_adapters.save_adapter(adapted, SETTINGS, str(pocket_folder), tmp_path)
    assert json.loads((tmp_path / "adapter_config.json").read_text())["base_model_name_or_path"] == str(pocket_folder)
    base = AutoModelForCausalLM.from_pretrained(pocket_folder, dtype=torch.float32)
    again = peft.PeftModel.from_pretrained(base, str(tmp_path))
    assert torch.equal(logits(again), logits(adapted))


def test_adapters_are_restored_exactly(adapted, pocket_folder):
    randomise_adapters(adapted)
    other = load(pocket_folder, PolicyConfig()).model
    lora_adapters.attach_adapters(other, SETTINGS, seed=99)
    lora_adapters.load_state(other, lora_adapters.state(adapted))
    assert torch.equal(logits(other), logits(adapted))


def test_adapters_of_another_rank_are_refused(adapted, pocket_folder):
    other = load(pocket_folder, PolicyConfig()).model
    lora_adapters.attach_adapters(other, LoraConfig(rank=2), seed=0)
    with pytest.raises(ModelError, match=r"lora\.rank and policy\.model must stay"):
        lora_adapters.load_state(other, lora_adapters.state(adapted))


def test_a_half_precision_base_gets_float32_adapters(pocket_folder):
    model = load(pocket_folder, PolicyConfig(dtype="bfloat16")).model
    lora_adapters.attach_adapters(model, SETTINGS, seed=0)
    randomise_adapters(model)
    assert {parameter.dtype for parameter in lora_adapters.trainable(model)} == {torch.float32}
    assert logits(model).dtype == torch.bfloat16
    assert {weight.dtype for weight in lora_adapters.merged(model).values()} == {torch.bfloat16}


def test_a_copy_sharing_the_base_learns_independently(policy):
    shared = {id(parameter): parameter for parameter in policy.model.parameters()}
    other = copy.deepcopy(policy.model, shared)
    lora_adapters.attach_adapters(policy.model, SETTINGS, seed=0)
    lora_adapters.attach_adapters(other, SETTINGS, seed=1)
    before = logits(policy.model)
    randomise_adapters(other)
    assert torch.equal(logits(policy.model), before)
    assert not torch.allclose(logits(other), before)
    weight = "model.layers.0.mlp.up_proj.base_layer.weight"
    assert policy.model.get_parameter(weight) is other.get_parameter(weight)


def test_fused_experts_have_the_rank_of_both_their_matrices_without_a_warning():
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "vocab_size": 100}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "num_local_experts": 4}
    model = AutoModelForCausalLM.from_config(MixtralConfig(**sizes, **heads))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lora_adapters.attach_adapters(model, SETTINGS, seed=3)
    shapes = [tuple(p.shape) for name, p in model.named_parameters() if "experts.base_layer.lora_A" in name]
    assert shapes == [(2 * 4 * 4, 32)], "gate and up are one matrix: twice the rank, for four experts"
