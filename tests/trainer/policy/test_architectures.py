"""Common architectures, as tiny random checkpoints: each is trained as it samples, or refused in a sentence of ours."""

from __future__ import annotations

import peft
import pytest
import torch
from transformers import AutoModelForCausalLM

from tests.tiers import nightly_but
from tests.trainer import tiny
from tests.trainer.learner.test_learner import batch_of, learner_for, weights
from tests.trainer.policy.architectures import ARCHITECTURES, COLUMNS, KINDS, WINDOW, Architecture, documented
from trainer.config.run import LoraConfig, PolicyConfig
from trainer.engines.sampler import SamplingParams
from trainer.engines.transformers.cache_check import check_cache
from trainer.engines.transformers.transformers_sampler import TransformersSampler
from trainer.policy import lora_adapters
from trainer.policy.forward import PolicyForward
from trainer.policy.load import ModelError, load
from trainer.policy.packing import attention

SUPPORTED = [one for one in ARCHITECTURES if not one.refused]
OF_EACH_KIND = nightly_but(SUPPORTED, [one for one in SUPPORTED if one.name in KINDS])
REFUSED = [one for one in ARCHITECTURES if one.refused]
PROMPTS = [list(range(3, 3 + WINDOW + 5)), [30, 31, 32]]
LATER = [[40, 41], list(range(50, 50 + WINDOW))]


def named(architectures):
    return pytest.mark.parametrize("architecture", architectures, ids=lambda one: one.name)


@pytest.fixture(scope="module")
def tokenizer():
    return tiny.styles()["chatml"]


@pytest.fixture
def folder(architecture, tokenizer, tmp_path):
    return architecture.save(tmp_path / "model", tokenizer)


@named(SUPPORTED)
def test_the_update_computes_the_probabilities_that_were_sampled(architecture: Architecture, folder):
    """In dialogues of two turns, longer than the windows, with rows of different lengths."""
    policy = load(folder, PolicyConfig())
    check_cache(policy.model)
    sampler = TransformersSampler(policy.model, policy.tokenizer.eos_token_id, policy.pad_id)
    session = sampler.session([1, 2], SamplingParams(max_tokens=5))
    ids, sampled, logprobs = [[], []], [[], []], [[], []]
    for prompts in (PROMPTS, LATER):
        for row, response in session.generate(dict(enumerate(prompts))):
            ids[row] += prompts[row] + response.ids
            sampled[row] += [False] * len(prompts[row]) + [True] * len(response.ids)
            logprobs[row] += response.logprobs
    assert min(map(len, ids)) > WINDOW
    longest = max(map(len, ids))
    batch = torch.tensor([row + [policy.pad_id] * (longest - len(row)) for row in ids])
    mask = torch.tensor([row + [False] * (longest - len(row)) for row in sampled])
    learned, _ = PolicyForward(policy.model)(batch, mask, 1.0)
    assert learned.tolist() == pytest.approx([value for row in logprobs for value in row], abs=1e-4)
    learned.sum().backward()
    gradients = [parameter.grad for parameter in policy.model.parameters() if parameter.grad is not None]
    assert gradients
    assert all(torch.isfinite(gradient).all() for gradient in gradients)
    assert attention.prepared(policy.model) is architecture.packing


@named(OF_EACH_KIND)
def test_half_precision_is_sampled_as_it_is_computed(architecture: Architecture, folder):
    check_cache(load(folder, PolicyConfig(dtype="bfloat16")).model)


@named(OF_EACH_KIND)
def test_adapters_are_merged_as_peft_merges_them(architecture: Architecture, folder, tmp_path):
    settings = LoraConfig(rank=2, alpha=4)
    model = load(folder, PolicyConfig()).model
    names = set(model.state_dict())
    lora_adapters.attach_adapters(model, settings, seed=0)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in lora_adapters.trainable(model):
            parameter.copy_(0.1 * torch.randn(parameter.shape, generator=generator))
    merged = lora_adapters.merged(model)
    assert set(merged) == names
    ids = torch.arange(3, 30)[None]
    with torch.no_grad():
        learned = model(input_ids=ids).logits
        model.save_pretrained(tmp_path / "merged", state_dict=merged)
        again = AutoModelForCausalLM.from_pretrained(tmp_path / "merged")
        assert torch.allclose(again(input_ids=ids).logits, learned, atol=1e-4)
    lora_adapters.save_adapter(model, settings, str(folder), tmp_path / "adapter")
    base = AutoModelForCausalLM.from_pretrained(folder)
    theirs = peft.PeftModel.from_pretrained(base, str(tmp_path / "adapter")).merge_and_unload().state_dict()
    for name, weight in merged.items():
        assert torch.allclose(theirs[name], weight, atol=1e-6), name


@named(REFUSED)
def test_others_are_refused_with_the_reason_and_what_to_choose(architecture: Architecture, folder):
    with pytest.raises(ModelError) as refusal:
        check_cache(load(folder, PolicyConfig()).model)
    message = str(refusal.value)
    assert message.startswith("policy.model: ")
    assert architecture.refused in message
    assert "hoose a" in message
    assert "transformers/issues" not in message


def test_the_documentation_has_the_same_table():
    shown = documented()
    assert shown.pop("architecture") == list(COLUMNS)
    assert [name for name in shown if not name.startswith("---")] == [one.name for one in ARCHITECTURES]
    for one in ARCHITECTURES:
        *cells, vllm, remarks = shown[one.name]
        if one.refused:
            assert cells == ["refused", "", "", "", ""], one.name
            assert remarks, one.name
        else:
            assert cells == ["yes", "yes", "yes", "yes", "yes" if one.packing else "no"], one.name
        assert (vllm in ("yes", "no")) is one.loads, one.name


@named([one for one in REFUSED if one.loads])
def test_those_refused_for_their_sampling_alone_take_updates(architecture: Architecture, folder):
    """As with engine.name=vllm, which samples them itself."""
    learner = learner_for(folder, optimizer={"mini_batch_trajectories": 6})
    before = weights(learner)
    values = learner.update(batch_of(learner, [1, 0, 0, 0, 1, 0]), 1)
    assert values["policy/grad_norm"] > 0
    assert not torch.equal(weights(learner), before)
