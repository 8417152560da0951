"""Fixtures: the shipped pocket policy, and prompts from its training distribution."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tests.vllm.shapes import openings_of
from trainer.config.run import PolicyConfig, RunConfig
from trainer.engines.vllm.vllm_sampler import VllmSampler
from trainer.paths import POCKET_CHECKPOINT
from trainer.policy.chat_format import ChatFormat
from trainer.policy.load import Policy, load


def pocket() -> Policy:
    """A copy of the shipped policy that a test may change."""
    return load(POCKET_CHECKPOINT, PolicyConfig(device="cpu"))


@pytest.fixture(scope="session")
def chat() -> ChatFormat:
    return ChatFormat(pocket().tokenizer, think=True)


@pytest.fixture(scope="session")
def openings(chat: ChatFormat) -> list[list[int]]:
    """64 different first prompts."""
    return openings_of(chat, 64)


@pytest.fixture(scope="module")
def policy() -> Policy:
    return pocket()


@pytest.fixture(scope="module")
def sampler(policy: Policy, chat: ChatFormat) -> Iterator[VllmSampler]:
    """One engine per module: starting it takes longer than the tests."""
    torch.set_num_threads(2)
    made = VllmSampler(RunConfig.model_validate({"engine": {"name": "vllm"}}), policy, chat.eos_id)
    yield made
    made.close()
