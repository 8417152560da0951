"""Policies small enough to play in seconds."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.trainer import tiny
from tests.trainer.threads import THREADS
from trainer.config.run import PolicyConfig
from trainer.policy.chat_format import ChatFormat
from trainer.policy.load import Policy, load


@pytest.fixture(autouse=True)
def _threads():
    torch.set_num_threads(THREADS)


@pytest.fixture(scope="session")
def pocket_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pocket policy with random weights and a tokenizer of the built-in prompts, as an ordinary checkpoint."""
    return tiny.save_pocket(tmp_path_factory.mktemp("pocket"))


@pytest.fixture(scope="session")
def llama_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama-architecture checkpoint with its own tokenizer and a Llama-3 style template, random weights."""
    return tiny.save_llama(tmp_path_factory.mktemp("llama"))


@pytest.fixture
def policy(pocket_folder: Path) -> Policy:
    """A fresh copy of the pocket policy: a test may train it."""
    return load(pocket_folder, PolicyConfig())


@pytest.fixture(scope="session")
def chat(pocket_folder: Path) -> ChatFormat:
    """Chat format of the pocket policy."""
    return ChatFormat(load(pocket_folder, PolicyConfig()).tokenizer, think=True)
