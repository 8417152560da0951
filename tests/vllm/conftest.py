"""The shipped pocket policy, and prompts that it knows: first states of Sokoban rooms."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tests.vllm.shapes import openings_of
from trainer.config import PolicyConfig, RunConfig
from trainer.dialogue import ChatFormat
from trainer.policies import Policy, load
from trainer.samplers.vllm import VllmSampler
from trainer.warmup import SHIPPED


def pocket() -> Policy:
    """A copy of it that a test may change."""
    return load(SHIPPED, PolicyConfig(device="cpu"))


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
    """One engine for a module: starting one takes longer than all that is asked of it."""
    torch.set_num_threads(2)
    made = VllmSampler(RunConfig.model_validate({"engine": {"name": "vllm"}}), policy, chat.eos_id)
    yield made
    made.close()
