"""Adapters in vLLM: the base model stays in the engine, the adapters are sent as a LoRA request."""

from __future__ import annotations

import copy

import pytest
import torch

from tests.vllm.conftest import pocket
from tests.vllm.shapes import GREEDY, k3, sample
from trainer.config.run import RunConfig
from trainer.engines.sampler import SamplingParams
from trainer.engines.transformers.transformers_sampler import TransformersSampler
from trainer.engines.vllm.vllm_sampler import VllmSampler
from trainer.policy import lora_adapters
from trainer.policy.load import Policy


def train(policy: Policy, seed: int) -> None:
    """Change the adapters as an update does."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in lora_adapters.trainable(policy.model):
            parameter += 0.05 * torch.randn(parameter.shape, generator=generator)


def merged(policy: Policy) -> Policy:
    """A model with the adapters merged."""
    plain = pocket()
    plain.model.load_state_dict(copy.deepcopy(lora_adapters.merged(policy.model)))
    return plain


@pytest.fixture(scope="module")
def adapted():
    config = RunConfig.model_validate({"engine": {"name": "vllm"}, "lora": {"rank": 4, "alpha": 8}})
    policy = pocket()
    lora_adapters.attach_adapters(policy.model, config.lora, seed=1)
    train(policy, seed=1)
    return config, policy


@pytest.fixture(scope="module")
def engine(adapted, chat):
    config, policy = adapted
    made = VllmSampler(config, policy, chat.eos_id)
    yield made
    made.close()


def test_a_lora_request_samples_as_the_merged_model_before_and_after_an_update(engine, adapted, chat, openings):
    _, policy = adapted
    params = SamplingParams(max_tokens=32)
    outputs = []
    for step in range(2):
        own = sample(TransformersSampler(merged(policy).model, chat.eos_id), openings[:24], GREEDY)
        theirs = sample(engine, openings[:24], GREEDY)
        assert [response.ids for response in theirs] == [response.ids for response in own]
        assert k3(policy, openings[:24], sample(engine, openings[:24], params)) < 1e-4
        outputs.append([response.ids for response in own])
        train(policy, seed=2 + step)
        engine.weights_updated()
    base = sample(TransformersSampler(pocket().model, chat.eos_id), openings[:24], GREEDY)
    assert len({str(ids) for ids in [*outputs, [response.ids for response in base]]}) == 3
