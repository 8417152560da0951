"""A real language model in vLLM next to the learner: byte pairs, tied embeddings and a vocabulary of 49,152 tokens."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.models.conftest import smollm2 as smollm2
from tests.vllm.shapes import GREEDY, k3, openings_of, sample, scored
from tests.vllm.test_engine import change
from trainer.config.run import PolicyConfig
from trainer.engines.sampler import SamplingParams
from trainer.engines.transformers.transformers_sampler import TransformersSampler
from trainer.policy.chat_format import ChatFormat
from trainer.policy.load import Policy, load


@pytest.fixture(scope="module")
def policy(smollm2: Path) -> Policy:
    return load(smollm2, PolicyConfig(device="cpu"))


@pytest.fixture(scope="module")
def chat(policy: Policy) -> ChatFormat:
    return ChatFormat(policy.tokenizer, think=True)


@pytest.fixture(scope="module")
def openings(chat: ChatFormat) -> list[list[int]]:
    return openings_of(chat, 8)


def test_greedy_tokens_and_their_log_probabilities_are_those_of_transformers(sampler, policy, chat, openings):
    sampler.weights_updated()
    own = sample(TransformersSampler(policy.model, chat.eos_id), openings, GREEDY)
    theirs = sample(sampler, openings, GREEDY)
    assert [response.ids for response in theirs] == [response.ids for response in own]
    for prompt, response in zip(openings, theirs, strict=True):
        assert torch.allclose(scored(policy, prompt, response), torch.tensor(response.logprobs), atol=2e-3)


def test_samples_have_the_probabilities_of_the_newest_weights(sampler, policy, openings, record_property):
    change(policy)
    params = SamplingParams(temperature=1.0, max_tokens=32)
    before = k3(policy, openings, sample(sampler, openings, params))
    sampler.weights_updated()
    after = k3(policy, openings, sample(sampler, openings, params))
    record_property("k3_before", before)
    record_property("k3_after", after)
    assert after < 1e-5
    assert before > 100 * after
