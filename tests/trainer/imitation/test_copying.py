"""Practice in copying: what the texts repeat, and that it teaches to copy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import Qwen2ForCausalLM

from trainer.imitation.copying import TOKENS, copyable_tokens, copying_batch, copying_loss
from trainer.policy import pocket
from trainer.policy.chat_format import ChatFormat

ALPHABET = list(range(10, 500))


@given(st.integers(0, 2**32 - 1))
def test_copied_tokens_continue_as_the_text_before_them(seed: int) -> None:
    batch = copying_batch(ALPHABET, np.random.default_rng(seed))
    size, length = batch.ids.shape
    assert TOKENS - length < size * length <= TOKENS
    assert set(batch.ids.flatten().tolist()) <= set(ALPHABET)
    assert not batch.copied[:, : length // 2].any(), "nothing to copy from yet"
    for ids, copied in zip(batch.ids.tolist(), batch.copied.tolist(), strict=True):
        pairs = set(itertools.pairwise(ids[: length // 2]))
        ends = [place for place in range(length) if copied[place]]
        assert len(ends) > length // 4
        assert all((ids[place - 1], ids[place]) in pairs for place in ends)


def share_copied(model, batch) -> float:
    """Share of copied tokens, 0 to 1, that the model finds the most probable."""
    with torch.no_grad():
        written = model(input_ids=batch.ids).logits[:, :-1].argmax(-1)
    copied = batch.copied[:, 1:]
    return float((written[copied] == batch.ids[:, 1:][copied]).float().mean())


def test_frequent_tokens_are_few_and_make_up_their_share() -> None:
    batch = copying_batch(ALPHABET, np.random.default_rng(0), 256, frequent=0.35)
    for row in batch.ids:
        counts = torch.bincount(row).sort(descending=True).values
        assert counts[6] < 8
        assert 0.25 < counts[:6].sum() / len(row) < 0.5


def test_special_tokens_are_not_copied(chat: ChatFormat) -> None:
    tokens = copyable_tokens(chat.tokenizer)
    assert len(tokens) == len(chat.tokenizer) - 3
    assert not {chat.eos_id, chat.tokenizer.pad_token_id} & set(tokens)


@pytest.fixture
def model(chat: ChatFormat) -> Qwen2ForCausalLM:
    return pocket.build_model(chat.tokenizer, 0, num_hidden_layers=2)


@pytest.mark.nightly
def test_practice_makes_an_induction_head_copy(model: Qwen2ForCausalLM, chat: ChatFormat) -> None:
    pocket.induction_head(model, seed=0)
    tokens, rng = copyable_tokens(chat.tokenizer), np.random.default_rng(0)
    unseen = copying_batch(tokens, np.random.default_rng(99))
    assert share_copied(model, unseen) < 0.2
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for _ in range(60):
        optimizer.zero_grad()
        copying_loss(model, copying_batch(tokens, rng)).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    assert share_copied(model, unseen) > 0.6
