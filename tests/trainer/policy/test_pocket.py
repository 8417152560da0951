"""Starts of the pocket policy's heads: where they look, and what they refuse."""

from __future__ import annotations

import pytest
import torch

from trainer.policy import pocket
from trainer.policy.chat_format import ChatFormat


def attention_of_first_layer(distances: tuple[int, ...], chat: ChatFormat, length: int = 120) -> torch.Tensor:
    """(heads, length, length) attention of a new model over random tokens."""
    model = pocket.build_model(chat.tokenizer, 0)
    pocket.look_back(model, distances)
    model.set_attn_implementation("eager")
    ids = torch.randint(10, len(chat.tokenizer), (1, length), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        return model(ids, output_attentions=True).attentions[0][0]


def test_heads_look_back_by_their_distances_and_the_others_anywhere(chat: ChatFormat) -> None:
    attention = attention_of_first_layer((1, 5), chat)
    for place in (10, 60, 119):
        for head, distance in enumerate((1, 5)):
            assert attention[head, place].argmax() == place - distance
            assert attention[head, place, place - distance] > 0.5
        assert attention[2:, place].max() < 2 / place


def test_more_distances_than_heads_are_refused(chat: ChatFormat) -> None:
    with pytest.raises(ValueError, match="5 distances for 4 heads"):
        pocket.look_back(pocket.build_model(chat.tokenizer, 0), (1, 2, 3, 4, 5))


def test_an_induction_head_leaves_the_global_random_state(chat: ChatFormat) -> None:
    state = torch.get_rng_state()
    model = pocket.build_model(chat.tokenizer, 0)
    pocket.induction_head(model, seed=3)
    assert torch.equal(torch.get_rng_state(), state)
    again = pocket.build_model(chat.tokenizer, 0)
    pocket.induction_head(again, seed=3)
    assert all(torch.equal(one, other) for one, other in zip(model.parameters(), again.parameters(), strict=True))
