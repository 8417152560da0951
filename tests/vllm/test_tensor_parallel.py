"""vLLM engine split over two processes: it samples like the whole model before and after an update."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.vllm.conftest import pocket
from tests.vllm.shapes import GREEDY, sample
from trainer.config.run import RunConfig
from trainer.engines.transformers.transformers_sampler import TransformersSampler
from trainer.engines.vllm.vllm_sampler import VllmSampler


@pytest.fixture(scope="module")
def split_sampler(chat):
    policy = pocket()
    config = RunConfig.model_validate({"engine": {"name": "vllm"}, "cluster": {"resources": {"rollout_gpus": 2}}})
    made = VllmSampler(config, policy, chat.eos_id)
    yield made, policy
    made.close()


def test_an_engine_in_two_parts_follows_every_update(split_sampler, chat, openings):
    sampler, policy = split_sampler
    generator = torch.Generator().manual_seed(0)
    answers = []
    for _ in range(2):
        sampler.weights_updated()
        theirs = sample(sampler, openings[:16], GREEDY)
        own = sample(TransformersSampler(policy.model, chat.eos_id), openings[:16], GREEDY)
        assert [response.ids for response in theirs] == [response.ids for response in own]
        for one, other in zip(theirs, own, strict=True):
            assert one.logprobs == pytest.approx(other.logprobs, abs=1e-3)
        answers.append([response.ids for response in own])
        with torch.no_grad():
            for weight in policy.model.parameters():
                weight += 0.05 * weight.std() * torch.randn(weight.shape, generator=generator)
    assert answers[0] != answers[1], "the update changed what is sampled"
    assert not list(Path(sampler.engine.folder.name).glob("weights-*")), "files of weights are deleted"
