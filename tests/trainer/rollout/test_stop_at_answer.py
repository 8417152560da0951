"""Responses that end after their answer, or with another end token of the model: tokens, masks and records."""

from __future__ import annotations

import pytest

from tests.trainer import tiny
from trainer.engines.sampler import SampledResponse
from trainer.engines.stop_text import StopText
from trainer.policy.chat_format import ANSWER_END, ChatFormat
from trainer.rollout.trajectory import collate

STYLES = tiny.styles()
ROOM = {"room": "######\n#____#\n#_PX_#\n#___O#\n#____#\n######"}


def stopped(chat: ChatFormat, text: str) -> SampledResponse:
    """The response that a sampler cuts out of this text."""
    ids = chat.tokenizer.encode(text, add_special_tokens=False)
    ids = ids[: StopText(ANSWER_END, chat.tokenizer).length(ids)]
    return SampledResponse(ids, [-0.5] * len(ids), [0.5] * len(ids), stopped=True)


@pytest.mark.parametrize("style", sorted(STYLES))
@pytest.mark.parametrize("tail", ["", ".", "\n\nThen Down.", ">"])
def test_the_end_token_after_an_answer_is_added_and_not_trained_on(style, tail):
    chat = ChatFormat(STYLES[style], think=True)
    cut, whole = (tiny.episode(chat, seed=0, options=ROOM) for _ in range(2))
    for episode, response in (
        (cut, stopped(chat, tiny.answer("Up") + tail)),
        (whole, tiny.sampled(chat, chat.decode(stopped(chat, tiny.answer("Up") + tail).ids))),
    ):
        episode.prompt()
        turn = episode.receive(response)
        assert turn is not None
        assert (turn.format_valid, turn.truncated, [action.name for action in turn.actions]) == (True, False, ["Up"])
        episode.prompt()
    assert cut.trajectory.ids == whole.trajectory.ids
    (end,) = [
        n
        for n, pair in enumerate(zip(cut.trajectory.sampled, whole.trajectory.sampled, strict=True))
        if len(set(pair)) > 1
    ]
    assert cut.trajectory.ids[end] == chat.end_id("user")
    assert not cut.trajectory.sampled[end]
    mask = collate([cut.trajectory], 0).mask[0]
    assert [n for n, trained in enumerate(mask.tolist()) if trained] == [
        n for n, turn in enumerate(cut.trajectory.turn_of) if turn == 0
    ]


def test_a_response_may_end_with_another_end_token_of_the_model():
    tokenizer = STYLES["chatml"]
    other = tokenizer.convert_tokens_to_ids("<|endoftext|>")
    chat = ChatFormat(tokenizer, think=True, model_end_ids=[other])
    assert chat.end_ids == {chat.eos_id, other}
    episode = tiny.episode(chat, seed=0, options=ROOM)
    episode.prompt()
    ids = [*tokenizer.encode(tiny.answer("Up"), add_special_tokens=False), other]
    turn = episode.receive(SampledResponse(ids, [0.0] * len(ids), [0.0] * len(ids), ended=True))
    assert turn is not None
    assert turn.response == tiny.answer("Up")
    assert not turn.truncated
    following = episode.prompt()
    assert following[0] == chat.eos_id
    assert episode.trajectory.sampled[-len(following) - 1 :] == [True, *[False] * len(following)]
