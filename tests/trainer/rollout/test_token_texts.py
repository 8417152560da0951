"""Texts of tokens: they add up to the response, whatever the tokenizer, and encode to the same tokens again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trainer import tiny
from trainer.journal import token_arrays
from trainer.policy.chat_format import ChatFormat
from trainer.rollout.token_texts import TokenTexts

STYLES = tiny.styles()
CHATS = {name: ChatFormat(tokenizer, think=True) for name, tokenizer in STYLES.items()}


@pytest.mark.parametrize("style", CHATS)
@given(
    text=st.text(st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from("Push up → é😀\n")), max_size=40)
)
def test_token_lengths_of_any_text_add_up_to_it(style: str, text: str) -> None:
    chat = CHATS[style]
    ids = [*chat.tokenizer.encode(text, add_special_tokens=False), chat.eos_id]
    response = chat.decode(ids)
    lengths = TokenTexts(chat).lengths(ids, response)
    assert len(lengths) == len(ids)
    assert sum(lengths) == len(response)
    assert lengths[-1] == 0, "the end token has no text"


def test_a_character_of_several_tokens_belongs_to_the_last_of_them() -> None:
    chat = CHATS["pocket"]
    ids = chat.tokenizer.encode("a😀b", add_special_tokens=False)
    lengths = TokenTexts(chat).lengths(ids, "a😀b")
    assert token_arrays.cut("a😀b", lengths) == ["a", "", "", "", "😀", "b"]
    assert TokenTexts(chat).lengths(ids[:3], chat.decode(ids[:3])) == [1, 0, len(chat.decode(ids[:3])) - 1]


def test_invalid_utf8_is_cut_as_it_is_displayed() -> None:
    chat = CHATS["pocket"]
    halves = chat.tokenizer.encode("é😀→", add_special_tokens=False)
    for ids in (halves[1:], halves[::-1], halves[:1] * 3, halves[2:4] + halves[:1]):
        response = chat.decode(ids)
        assert sum(TokenTexts(chat).lengths(ids, response)) == len(response)


class NonByteLevelTokenizer:
    """A tokenizer that is not byte-level, such as one of SentencePiece."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tokenizer, name)

    def convert_ids_to_tokens(self, token: int) -> str:
        return "▁" + str(self.tokenizer.convert_ids_to_tokens(token))


@pytest.mark.parametrize("text", ["I push Up, then Left.", "a → b 😀!", ""])
def test_tokenizers_that_are_not_byte_level_are_cut_by_decoding(text: str) -> None:
    chat = ChatFormat(STYLES["chatml"], think=True)
    ids = chat.tokenizer.encode(text, add_special_tokens=False)
    expected = TokenTexts(chat).lengths(ids, text)
    chat.tokenizer = NonByteLevelTokenizer(chat.tokenizer)
    assert TokenTexts(chat).lengths(ids, text) == expected


@pytest.mark.parametrize("style", CHATS)
@given(text=st.text(st.sampled_from("Push up → é😀\n<answer>"), min_size=1, max_size=40))
def test_the_tokenizers_own_tokens_encode_to_themselves_and_others_are_marked(style: str, text: str) -> None:
    chat = CHATS[style]
    texts = TokenTexts(chat)
    forced = chat.tokenizer.encode(chat.forced, add_special_tokens=False)
    together = chat.tokenizer.encode(chat.forced + text, add_special_tokens=False)
    if together[: len(forced)] != forced:
        return  # the tag and the text share a token
    ids = [*together[len(forced) :], chat.eos_id]
    assert texts.retokenised(ids, text) == [False] * len(ids)
    letters = [token for letter in text for token in chat.tokenizer.encode(letter, add_special_tokens=False)]
    marked = texts.retokenised(letters, text)
    assert any(marked) == (letters != ids[:-1])


def test_a_byte_of_sentencepiece_is_a_byte_and_its_space_a_space() -> None:
    chat = ChatFormat(STYLES["chatml"], think=True)
    chat.tokenizer = SentencePieceTokenizer()
    assert TokenTexts(chat).decode([0, 1, 2, 3]) == ([3, 0, 1, 4], " Go\u00e9 now")


class SentencePieceTokenizer:
    added_tokens_decoder: dict[int, Any] = {}

    def convert_ids_to_tokens(self, token: int) -> str:
        return ["\u2581Go", "<0xC3>", "<0xA9>", "\u2581now"][token]
